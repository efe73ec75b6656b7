from __future__ import annotations

import pytest

from tests.doctor.scene import Queue, config, over
from trainer.doctor.rules.compression_saves import look

BUCKETS: list[tuple[float, float]] = [(25, 300), (25, 400), (25, 500), (22.5, 600)]
HOSTS = {"hosts": ["a", "b"]}


def link(mb_per_s: float) -> Queue:
    return Queue((200, 600), start_ms=0.5, mb_per_s=mb_per_s)


def test_the_gentlest_hook_that_is_about_as_fast_as_the_fastest_is_named():
    finding = look(over(link(117), BUCKETS, **HOSTS))
    assert finding is not None
    assert finding[:3] == (
        "comm=onebit would save 46 % of the step",
        "97.5 MiB of gradient travel at 0.936 Gbit/s a rank, and the last bucket arrives 576 ms after the backward"
        " pass. Predicted for other hooks: fp16 161 ms, int8 72.0 ms, onebit 32.1 ms, topk 24.6 ms. onebit is the"
        " gentlest of those that are about as fast as the fastest. The rule of thumb for such a link is topk; what was"
        " measured here wins. It keeps what it does not send, in 97.5 MiB a rank.",
        "comm=onebit",
    )
    assert finding.gain_ms == pytest.approx(544, abs=1)


@pytest.mark.parametrize(("mb_per_s", "hook"), [(12, "topk"), (117, "onebit"), (200, "int8"), (1000, None)])
def test_the_measured_rate_decides(mb_per_s: float, hook: str | None):
    finding = look(over(link(mb_per_s), BUCKETS, **HOSTS))
    assert (finding and finding.advice) == (hook and f"comm={hook}")


def test_half_the_bytes_are_enough_where_small_buckets_then_keep_up():
    even = [(2.5, 200 + 20.5 * (number + 1)) for number in range(39)]
    finding = look(over(Queue((200, 1000), start_ms=0.1, mb_per_s=90), even, **HOSTS))
    assert finding is not None
    assert finding.advice == "comm=fp16"
    assert "It keeps what it does not send" not in finding.evidence


def test_hooks_that_the_precision_forbids_are_not_named():
    finding = look(over(link(12), BUCKETS, config=config(precision="fp16"), **HOSTS))
    assert finding is not None
    assert finding.advice == "comm=bf16"


def test_the_hook_that_the_run_has_is_not_named():
    already = config(comm___target_="trainer.comm.topk.TopK")
    hook = {"sent": 0.015, "encode_ms": 0.9, "starts": 2}
    assert look(over(link(12), BUCKETS, config=already, hook=hook, **HOSTS)) is None
