"""Both views of steps whose spans are worked out by hand."""

from __future__ import annotations

import pytest

from tests.overlap.past import past_step
from trainer.overlap.agreement import compare
from trainer.overlap.kernels import Work
from trainer.overlap.meter import PastStep


def past(moment: float, *spans: tuple[str, float, float]) -> PastStep:
    """A step of 20 ms that begins at `moment`, with spans in ms."""
    return past_step(moment, 0.020, *((lane, start / 1000, end / 1000) for lane, start, end in spans))


def ms(*intervals: tuple[float, float]) -> list[tuple[float, float]]:
    return [(start / 1000, end / 1000) for start, end in intervals]


def test_each_view_has_its_own_communication_and_computing():
    steps = {11: past(0.1, ("backward", 0, 6), ("comm", 4, 14)), 12: past(0.2, ("backward", 0, 6), ("comm", 4, 8))}
    work = Work(comm=ms((105, 115), (204, 208)), compute=ms((100, 110), (200, 207)), copies=ms((118, 130)))
    compared = compare(steps, work)
    assert [entry["step"] for entry in compared["steps"]] == [11, 12]
    first, second = compared["steps"]
    assert first["profiler"] == {"comm_ms": 10, "exposed_ms": 5, "copy_ms": 2, "hidden_ratio": 0.5}
    assert first["meter"] == {"comm_ms": 10, "exposed_ms": 8, "hidden_ratio": 0.2}
    assert second["profiler"] == {"comm_ms": 4, "exposed_ms": 1, "copy_ms": 0, "hidden_ratio": 0.75}
    assert second["meter"] == {"comm_ms": 4, "exposed_ms": 2, "hidden_ratio": 0.5}
    # Times are means over steps, and the ratio is that of the means.
    assert compared["profiler"] == {
        "comm_ms": 7,
        "exposed_ms": 3,
        "copy_ms": 1,
        "hidden_ratio": pytest.approx(4 / 7, abs=1e-4),
    }
    assert compared["meter"] == {"comm_ms": 7, "exposed_ms": 5, "hidden_ratio": pytest.approx(2 / 7, abs=1e-4)}


def test_a_hook_that_tells_of_its_exchanges_is_compared_by_them():
    step = past(0.1, ("backward", 0, 6), ("comm", 0, 14), ("exchange", 5, 7))
    assert compare({1: step}, Work(ms((105, 107)), [], []))["meter"]["comm_ms"] == 2


def test_what_starts_between_steps_is_of_no_step():
    work = Work(comm=ms((99, 103), (102, 104), (120, 121)), compute=[], copies=[])
    assert compare({1: past(0.1)}, work)["profiler"]["comm_ms"] == 2


def test_a_collective_that_outlasts_its_step_goes_on_in_the_next_as_with_the_meter():
    work = Work(comm=ms((115, 133)), compute=ms((125, 130)), copies=[])
    first, second = compare({1: past(0.1), 2: past(0.124)}, work)["steps"]
    assert (first["profiler"]["comm_ms"], first["profiler"]["exposed_ms"]) == (5, 5)
    assert (second["profiler"]["comm_ms"], second["profiler"]["exposed_ms"]) == (9, 4)


def test_without_communication_there_is_no_ratio():
    compared = compare({1: past(0.1, ("backward", 0, 6))}, Work([], ms((100, 106)), []))
    assert compared["profiler"] == {"comm_ms": 0, "exposed_ms": 0, "copy_ms": 0}
    assert compared["meter"] == {"comm_ms": 0, "exposed_ms": 0}
