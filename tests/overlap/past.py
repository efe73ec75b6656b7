"""Steps that are over, as the meter gives them, from spans that a test writes down."""

from __future__ import annotations

from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter, PastStep


class _SetClock(HostClock):
    now = 0.0

    def mark(self) -> float:
        return self.now


def past_step(moment: float, duration: float, *spans: tuple) -> PastStep:
    """A step at `moment` with spans (lane, start, end) and perhaps (…, name, size, bytes); all times in seconds."""
    clock = _SetClock()
    meter = Meter(clock)
    clock.now = moment
    meter.begin_step()
    for lane, start, end, *rest in spans:
        clock.now = moment + start
        span = meter.begin(lane)
        span.name, span.size, span.bytes = rest or ("", 0.0, 0.0)
        span.end = moment + end
    clock.now = moment + duration
    meter.end_step()
    (past,) = meter.read()
    return past
