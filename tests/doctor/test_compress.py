"""Which hook is chosen, from predictions."""

from __future__ import annotations

from tests.doctor.scene import Queue, config, over
from trainer.doctor.compress import Outcome, choose, outcomes
from trainer.doctor.hooks import EXACT, HOOKS
from trainer.doctor.situation import situation

STEP_MS = 1000.0


def chosen(*gains: float) -> str | None:
    found = choose([Outcome(hook, 0.0, gain) for hook, gain in zip((EXACT, *HOOKS), gains, strict=True)], STEP_MS)
    return found and found.hook.name


def test_the_fastest_is_taken_if_it_is_worth_it():
    assert chosen(0, 50, 60, 90, 99) is None
    assert chosen(0, 50, 60, 100, 60) == "onebit"


def test_a_gentler_one_is_taken_if_its_step_is_about_as_long():
    assert chosen(0, 370, 390, 400, 400) == "fp16"
    assert chosen(0, 369, 371, 400, 400) == "int8"
    assert chosen(0, 369, 369, 360, 400) == "topk"


def test_without_candidates_there_is_no_choice():
    assert choose([], STEP_MS) is None


def test_no_more_than_what_is_exposed_can_be_gained():
    queue, buckets = Queue((200, 600), start_ms=0.5, mb_per_s=12), [(25.0, 300.0), (25.0, 600.0)]
    at = situation(over(queue, buckets, {"exposed": 200}, config=config()))
    assert at is not None
    assert max(outcome.gain_ms for outcome in outcomes(at, "fp32")) == 200


def test_a_busier_device_encodes_faster():
    queue, buckets = Queue((20, 60), start_ms=0.1, mb_per_s=2000), [(25.0, 30.0), (25.0, 60.0)]
    cpu, cuda = (
        {one.hook.name: one.tail_ms for one in outcomes(at, "fp32")}
        for device in ("cpu", "cuda")
        if (at := situation(over(queue, buckets, config=config(place__device=device))))
    )
    assert cpu["allreduce"] == cuda["allreduce"]
    assert cpu["onebit"] > 10 * cuda["onebit"]
