"""A recorded step as all ranks together did it: which gradients came when, and how long they travelled."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from trainer.doctor.typical import values
from trainer.overlap.evidence import Event, Evidence, Window

# A median of so many steps is as good as one of all; a long run with many buckets is examined while somebody waits.
ENOUGH = 16


class Transfer(NamedTuple):
    """A bucket, or one exchange of a hook's."""

    size: float
    """bytes of gradient"""
    sent: float
    """bytes that a rank sent"""
    ready_ms: float
    """when the last rank came to it"""
    end_ms: float
    """when it had arrived on all ranks"""


class Step(NamedTuple):
    """One step; times in ms on one clock."""

    window_s: float
    """the mean step of its window, on the slowest rank"""
    backward_start_ms: float
    """of the last micro-batch, in which gradients travel"""
    backward_end_ms: float
    """of the slowest rank"""
    buckets: list[Transfer]
    exchanges: list[Transfer]
    """what moved; the buckets themselves for a hook that is one collective"""

    @property
    def backward_ms(self) -> float:
        return self.backward_end_ms - self.backward_start_ms

    @property
    def gradient(self) -> float:
        """Bytes of all gradients."""
        return sum(bucket.size for bucket in self.buckets)

    @property
    def tail_ms(self) -> float:
        """From the end of the backward pass to the arrival of the last bucket."""
        return max(0.0, max(bucket.end_ms for bucket in self.buckets) - self.backward_end_ms)


def recorded(evidence: Evidence) -> list[Step]:
    """Steps that were recorded span by span and whose buckets can be told, without the first, which warms up."""
    windows = [window for window in evidence.windows if window.timeline]
    windows = windows[1:] or windows
    steps = (_step(window) for window in windows[:: -(-len(windows) // ENOUGH) or 1])
    return [step for step in steps if step is not None]


def typical(steps: Sequence[Step]) -> Step | None:
    """The step whose window is nearest to the median of them."""
    median = statistics.median(step.window_s for step in steps) if steps else 0.0
    return min(steps, key=lambda step: abs(step.window_s - median), default=None)


def travel_ms(transfers: Sequence[Transfer], at_once: int = 1) -> list[float]:
    """The time for which each transfer kept the wire.

    As many as `at_once` are under way together, in their order, and share the time evenly; the others wait.
    """
    taken = [0.0] * len(transfers)
    starts = sorted(range(len(transfers)), key=lambda one: transfers[one].ready_ms)
    moments = sorted({moment for transfer in transfers for moment in (transfer.ready_ms, transfer.end_ms)})
    ready: list[int] = []
    for start, end in itertools.pairwise(moments):
        while starts and transfers[starts[0]].ready_ms <= start:
            ready.append(starts.pop(0))
        ready = [one for one in ready if transfers[one].end_ms > start]
        moving = ready[:at_once]
        for one in moving:
            taken[one] += (end - start) / len(moving)
    return taken


def _step(window: Window) -> Step | None:
    ranks = window.timeline or []
    backward = [[event for event in events if event.lane == "backward"] for events in ranks]
    buckets = _together(ranks, "comm")
    if not buckets or not all(backward):
        return None
    last = [max(spans, key=lambda span: span.end_ms) for spans in backward]
    step = Step(
        max(values(window, "step"), default=0.0),
        statistics.fmean(span.start_ms for span in last),
        max(span.end_ms for span in last),
        buckets,
        _together(ranks, "exchange") or buckets,
    )
    return step if step.gradient > 0 and 0 < step.backward_ms < math.inf else None


def _together(ranks: Sequence[Sequence[Event]], lane: str) -> list[Transfer]:
    """The transfers of a lane over all ranks, which have them in the same order; empty where their numbers differ."""
    lanes = [
        sorted((event for event in events if event.lane == lane), key=lambda event: event.start_ms) for events in ranks
    ]
    if len({len(events) for events in lanes}) != 1:
        return []
    if not all(math.isfinite(value) for events in lanes for event in events for value in event[2:]):
        return []
    return [
        Transfer(
            max(event.size for event in events),
            statistics.fmean(event.bytes for event in events),
            max(event.start_ms for event in events),
            max(event.end_ms for event in events),
        )
        for events in zip(*lanes, strict=True)
    ]
