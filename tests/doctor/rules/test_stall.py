from __future__ import annotations

from typing import Any

import pytest

from tests.doctor.pipeline_scene import changed, equal, pipeline
from tests.doctor.scene import run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.stall import look
from trainer.overlap.evidence import Evidence, Window

HOSTS = ["a", "b", "c"]


def stalled(number: int, per_step_ms: float, **rank: Any) -> Evidence:
    """A run of eight windows of ten steps; in one of them rank 1 was waited for."""
    found = windows(sums(), sums(), sums(), count=8)
    waits = sums(peers=per_step_ms, step=100 + per_step_ms)
    found[number] = Window(step=10 * number + 10, steps=10, ranks=[waits, sums(**rank), waits])
    return run(found, hosts=HOSTS)


def test_thirty_seconds_of_one_rank_are_named():
    assert look(stalled(4, 3000, forward=3030, step=3100)) == Finding(
        "All waited 30.0 s for rank 1 on b",
        "Between steps 41 and 50 it was in its forward pass; a typical step takes 100 ms.",
        "less /runs/one/logs/rank1.log",
        pytest.approx(30000 / 80),
    )


def test_a_stall_outside_of_the_steps_is_named_as_such():
    finding = look(stalled(4, 3000))
    assert finding is not None
    assert "it was at nothing that belongs to a step, such as a checkpoint;" in finding.evidence


def test_several_stalls_are_counted():
    found = [*stalled(4, 3000).windows]
    found[6] = Window(step=70, steps=10, ranks=[sums(peers=300, step=400), sums(), sums(peers=300, step=400)])
    finding = look(run(found, hosts=HOSTS))
    assert finding is not None
    assert finding.evidence.endswith("And 1 more such wait, 3,000 ms in all.")
    assert finding.gain_ms == pytest.approx(33000 / 80)


def test_short_waits_are_hiccups():
    assert look(stalled(4, 90)) is None


def test_start_up_may_take_ranks_different_times():
    assert look(stalled(0, 900)) is None
    assert look(stalled(0, 3000)) is not None


def test_where_every_rank_waits_nobody_is_blamed():
    assert look(stalled(4, 3000, peers=1000)) is None


def test_in_a_pipeline_it_is_not_the_rank_whose_own_neighbour_stopped():
    whole = pipeline("1f1b", 2, 8, equal(2), replicas=2, count=8)
    # Rank 3 stops for 30 s: its replica waits for its gradients, its first stage for those of activations, and that
    # one's replica for that one.
    waits = {0: {"peers": 3000.0}, 1: {"await_gradients": 3003.0}, 2: {"peers": 3000.0}, 3: {"forward": 3008.0}}
    found = list(whole.windows)
    found[4] = changed(whole, waits).windows[4]
    finding = look(whole._replace(windows=found))
    assert finding is not None
    assert finding.title == "All waited 30.0 s for rank 3 on host0"
    assert "it was in its forward pass" in finding.evidence
    assert look(whole) is None
