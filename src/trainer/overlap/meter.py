"""The meter: spans of work go in, and how much communication they hid comes out."""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trainer.overlap.clock import Clock
from trainer.overlap.interval import Interval, length, subtract

# Lanes of threads that work on between two steps.
BACKGROUND = ("comm", "exchange", "optimizer")
COMPUTE = ("forward", "backward", "optimizer")
# Of a pipeline: the training thread waits for a neighbouring stage, and a message to one is on the wire.
AWAITS = ("await_activations", "await_gradients")
SENDS = ("send_onward", "send_back")
# Of layers that are shared out: an activation, or its gradient, is added up over the ranks; and within a pass the
# training thread waits for that.
SHARED, SHARED_WAIT = "shared", "shared_wait"
# The quantities of a step that add up, so that means over steps and ranks are sums: seconds, and bytes at the end.
BYTES = ("bytes", "stage_bytes", "shared_bytes")
TIMES = ("step", "forward", "backward", "optimizer", "data", "comm", "exchange", "exposed", "tail", *AWAITS)
SUMS = (*TIMES, SHARED, SHARED_WAIT, *BYTES)


@dataclass
class Span:
    """Work between two marks of the clock.

    Lanes: `forward`, `backward`, `optimizer`, `data`; `comm`, a bucket from its hook's call to its arrival; `exchange`,
    the part of a bucket's time in which its hook is in a collective. In a pipeline also AWAITS, in which a rank has
    nothing to do, and SENDS, a message from its handing over to its end on the wire, perhaps after the step. Of layers
    that are shared out SHARED, a sum or a gathering over their ranks, and SHARED_WAIT, inside a forward or backward
    span, in which the rank only waits for one.
    """

    lane: str
    start: Any
    name: str = ""
    """which of its lane, such as `bucket 3`"""
    end: Any = None
    size: float = 0.0
    """bytes that the work is about: of the gradients in a bucket"""
    bytes: float = 0.0
    """bytes that this rank sent"""
    number: int = -1
    """of a bucket: how many came before it, the same on all ranks that hold the same part of the model"""


class PastBucket(NamedTuple):
    """A bucket that has arrived; times in seconds from the start of the step in which it began."""

    number: int
    start: float
    end: float


class PastSpan(NamedTuple):
    """A span that is over; times in seconds from the start of its step."""

    lane: str
    name: str
    start: float
    end: float
    size: float
    bytes: float


@dataclass(frozen=True)
class PastStep:
    """A step that is over."""

    number: int
    """which of the meter's steps"""
    moment: float
    """its start, in seconds of the host's monotonic clock"""
    sums: dict[str, float]
    """SUMS"""
    spans: list[PastSpan]
    """all that was measured, and on lane `wait` the time in which the training thread only waited for gradients

    What lasts longer than the step is cut at its end; the rest is in the next step, with neither size nor bytes.
    """
    buckets: list[PastBucket]
    """the whole times of the buckets that began in this step, which may be another step on another rank"""


@dataclass
class _Step:
    number: int
    start: Any
    end: Any = None
    # Where the backward pass has handed over its last gradient: what follows in its span is waiting, not computing.
    gradients_ready: Any = None
    spans: list[Span] = field(default_factory=list)


class Meter:
    """Collects the spans of one rank, from any thread, without ever waiting for work to end."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._open = _Step(0, clock.mark())
        self._closed: collections.deque[_Step] = collections.deque()
        self._buckets = itertools.count()
        # The start of the step that was measured last, and its spans that outlast it.
        self._before: tuple[Any, list[PastSpan]] | None = None

    @property
    def number(self) -> int:
        """The number of the step that began last."""
        return self._open.number

    def begin_step(self) -> None:
        """What other threads began since the last `end_step` is part of this step; all else is dropped.

        So are messages between stages: it is the training thread that sends them, between two steps for an evaluation.
        """
        between = [span for span in self._open.spans if span.lane in BACKGROUND]
        self._open = _Step(self._open.number + 1, self.clock.mark(), spans=between)

    def end_step(self) -> None:
        self._open.end = self.clock.mark()
        self._closed.append(self._open)
        self._open = _Step(self._open.number, self._open.end)

    @contextlib.contextmanager
    def span(self, lane: str, name: str = "") -> Iterator[Span]:
        """Measure the body as work on `lane`."""
        span = self.begin(lane, name)
        try:
            yield span
        finally:
            span.end = self.clock.mark()

    def begin(self, lane: str, name: str = "") -> Span:
        """Open a span of the present step; the caller sets its `bytes` and then its `end`, from any thread."""
        span = Span(lane, self.clock.mark(), name)
        if lane == "comm":
            span.number = next(self._buckets)
        self._open.spans.append(span)
        return span

    @contextlib.contextmanager
    def exchange(self, phase: str, sent: float) -> Iterator[None]:
        """Measure the body as a hook's collective that sends `sent` bytes."""
        with self.span("exchange", phase) as span:
            span.bytes = sent
            yield

    def gradients_ready(self) -> None:
        """The backward pass has computed everything and only waits from here on."""
        self._open.gradients_ready = self.clock.mark()

    def read(self) -> list[PastStep]:
        """The steps that ended since the last call and whose marks have all passed, in order."""
        done = []
        while self._closed and self._finished(self._closed[0]):
            done.append(self._measure(self._closed.popleft()))
        return done

    def _finished(self, step: _Step) -> bool:
        marks = [step.end, *(span.end for span in step.spans)]
        return all(mark is not None and self.clock.passed(mark) for mark in marks)

    def _measure(self, step: _Step) -> PastStep:
        def at(mark: Any) -> float:
            return self.clock.between(step.start, mark)

        ready = None if step.gradients_ready is None else at(step.gradients_ready)
        spans = self._left_over(step)
        buckets = []
        for span in step.spans:
            # What began between two steps counts from the step's start, and all of its bytes do.
            start, end = max(0.0, at(span.start)), max(0.0, at(span.end))
            if span.lane == "backward" and ready is not None and start < ready < end:
                spans.append(PastSpan("wait", "gradients", ready, end, 0.0, 0.0))
                end = ready
            spans.append(PastSpan(span.lane, span.name, start, end, span.size, span.bytes))
            if span.lane == "comm":
                buckets.append(PastBucket(span.number, at(span.start), end))
        duration = at(step.end)
        self._before = step.start, [span for span in spans if span.end > duration]
        spans = [span._replace(end=min(span.end, duration)) for span in spans]
        past = PastStep(step.number, self.clock.moment(step.start), _sums(duration, spans), spans, buckets)
        for mark in (step.end, step.gradients_ready, *(mark for span in step.spans for mark in (span.start, span.end))):
            if mark is not None:
                self.clock.release(mark)
        return past

    def _left_over(self, step: _Step) -> list[PastSpan]:
        """What of the spans of the step before lies in this one."""
        if self._before is None:
            return []
        start, spans = self._before
        gap = self.clock.between(start, step.start)
        self.clock.release(start)
        return [
            PastSpan(span.lane, span.name, max(0.0, span.start - gap), span.end - gap, 0.0, 0.0)
            for span in spans
            if span.end > gap
        ]


def _sums(duration: float, spans: list[PastSpan]) -> dict[str, float]:
    lanes: dict[str, list[Interval]] = collections.defaultdict(list)
    for span in spans:
        lanes[span.lane].append((span.start, span.end))
    for lane in ("forward", "backward"):
        lanes[lane] = subtract(lanes[lane], [*lanes["wait"], *lanes[SHARED_WAIT]])
    compute = [interval for lane in COMPUTE for interval in lanes[lane]]
    last_backward = max((end for _, end in lanes["backward"]), default=0.0)
    last_bucket = max((end for _, end in lanes["comm"]), default=0.0)
    return {
        "step": duration,
        **{lane: length(lanes[lane]) for lane in (*COMPUTE, *AWAITS, SHARED, SHARED_WAIT, "data", "comm")},
        # A hook that is one collective is in it all the time.
        "exchange": length(lanes["exchange"] or lanes["comm"]),
        "exposed": length(subtract(lanes["comm"], compute)),
        "tail": max(0.0, last_bucket - last_backward),
        "bytes": sum(span.bytes for span in spans if span.lane == "comm"),
        "stage_bytes": sum(span.bytes for span in spans if span.lane in SENDS),
        "shared_bytes": sum(span.bytes for span in spans if span.lane == SHARED),
    }
