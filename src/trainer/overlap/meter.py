"""The meter: spans of work go in, and how much communication they hid comes out."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainer.overlap.clock import Clock
from trainer.overlap.interval import Interval, length, subtract

COMPUTE = ("forward", "backward", "optimizer")
# The quantities of a step that add up, so that means over steps and ranks are sums: seconds, and bytes at the end.
SUMS = ("step", "forward", "backward", "optimizer", "data", "comm", "exposed", "tail", "bytes")


@dataclass
class Span:
    """Work on a lane (`forward`, `backward`, `optimizer`, `data` or `comm`) between two marks of the clock."""

    lane: str
    start: Any
    end: Any = None
    bytes: float = 0.0


@dataclass
class Step:
    start: Any
    end: Any = None
    # Where the backward pass has handed over its last gradient: what follows in its span is waiting, not computing.
    gradients_ready: Any = None
    spans: list[Span] = field(default_factory=list)


class Meter:
    """Collects the spans of one rank, from any thread, without ever waiting for work to end."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._open = Step(clock.mark())
        self._closed: collections.deque[Step] = collections.deque()

    def begin_step(self) -> None:
        self._open = Step(self.clock.mark())

    def end_step(self) -> None:
        self._open.end = self.clock.mark()
        self._closed.append(self._open)

    @contextlib.contextmanager
    def span(self, lane: str) -> Iterator[None]:
        """Measure the body as work on `lane`."""
        span = self.begin(lane)
        try:
            yield
        finally:
            span.end = self.clock.mark()

    def begin(self, lane: str) -> Span:
        """Open a span of the present step; the caller sets its `bytes` and then its `end`, from any thread."""
        span = Span(lane, self.clock.mark())
        self._open.spans.append(span)
        return span

    def gradients_ready(self) -> None:
        """The backward pass has computed everything and only waits from here on."""
        self._open.gradients_ready = self.clock.mark()

    def read(self) -> list[dict[str, float]]:
        """SUMS of each step that ended since the last call and whose marks have all passed, in order."""
        done = []
        while self._closed and self._finished(self._closed[0]):
            done.append(self._measure(self._closed.popleft()))
        return done

    def _finished(self, step: Step) -> bool:
        marks = [step.end, *(span.end for span in step.spans)]
        return all(mark is not None and self.clock.passed(mark) for mark in marks)

    def _measure(self, step: Step) -> dict[str, float]:
        def at(mark: Any) -> float:
            return self.clock.between(step.start, mark)

        ready = None if step.gradients_ready is None else at(step.gradients_ready)
        lanes: dict[str, list[Interval]] = collections.defaultdict(list)
        for span in step.spans:
            start, end = at(span.start), at(span.end)
            if span.lane == "backward" and ready is not None and start < ready < end:
                end = ready
            lanes[span.lane].append((start, end))
        compute = [interval for lane in COMPUTE for interval in lanes[lane]]
        last_backward = max((end for _, end in lanes["backward"]), default=0.0)
        last_bucket = max((end for _, end in lanes["comm"]), default=0.0)
        return {
            "step": at(step.end),
            **{lane: length(lanes[lane]) for lane in (*COMPUTE, "data", "comm")},
            "exposed": length(subtract(lanes["comm"], compute)),
            "tail": max(0.0, last_bucket - last_backward),
            "bytes": sum(span.bytes for span in step.spans),
        }
