"""The meter's view of some steps beside the profiler's, which knows nothing of the meter's marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainer.overlap.interval import Interval, length, subtract
from trainer.overlap.kernels import Work
from trainer.overlap.meter import PastStep

Seconds = dict[str, float]


def compare(steps: Mapping[int, PastStep], work: Work) -> dict[str, Any]:
    """Communication, its exposed part and the hidden ratio as the profiler and as the meter saw them, of all and each.

    Compared is the time in which collectives run. For the meter that is the lane `exchange` where the hook tells of its
    exchanges, for a profiler cannot tell what a bucket does between them, and else the lane `comm`.
    """
    # Between steps ranks agree to stop and gather their metrics: what starts there is no step's.
    bounds = [(past.moment, past.moment + past.sums["step"]) for past in steps.values()]
    collectives = [one for one in work.comm if any(start <= one[0] < end for start, end in bounds)]
    work = work._replace(comm=collectives)

    entries, totals = [], {"profiler": Seconds(), "meter": Seconds()}
    for number, past in sorted(steps.items()):
        views = {"profiler": _profiled(past, work), "meter": _metered(past)}
        entries.append({"step": number} | {name: _report(view, 1) for name, view in views.items()})
        for name, view in views.items():
            totals[name] = {key: totals[name].get(key, 0.0) + seconds for key, seconds in view.items()}
    return {name: _report(total, len(entries)) for name, total in totals.items()} | {"steps": entries}


def _profiled(past: PastStep, work: Work) -> Seconds:
    bounds = past.moment, past.moment + past.sums["step"]
    return _measure(_within(work.comm, *bounds), work.compute) | {"copy": length(_within(work.copies, *bounds))}


def _metered(past: PastStep) -> Seconds:
    def lane(*names: str) -> list[Interval]:
        return [(span.start, span.end) for span in past.spans if span.lane in names]

    # A forward pass that waits for its parameters computes nothing meanwhile.
    computing = [*subtract(lane("forward", "backward"), lane("wait")), *lane("optimizer")]
    return _measure(lane("exchange") or lane("comm"), computing)


def _measure(comm: list[Interval], compute: list[Interval]) -> Seconds:
    return {"comm": length(comm), "exposed": length(subtract(comm, compute))}


def _within(intervals: Iterable[Interval], start: float, end: float) -> list[Interval]:
    return [(max(start, first), min(end, last)) for first, last in intervals if first < end and last > start]


def _report(sums: Seconds, steps: int) -> dict[str, float]:
    """Means a step in ms; without communication there is no ratio."""
    report = {f"{name}_ms": round(seconds / steps * 1000, 3) for name, seconds in sums.items()}
    if sums.get("comm"):
        report["hidden_ratio"] = round(1 - sums["exposed"] / sums["comm"], 4)
    return report
