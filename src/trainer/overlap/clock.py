"""Marks in time: on a CPU the monotonic clock, on a GPU events on the current stream, never waited for."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch


class Clock(Protocol):
    def mark(self) -> Any:
        """A mark of now, in the order of the work given so far."""

    def passed(self, mark: Any) -> bool:
        """Whether the work before `mark` is done, so that `between` can answer."""

    def between(self, start: Any, end: Any) -> float:
        """Seconds from one passed mark to another."""


class HostClock:
    """Work that blocks the calling thread is done when the thread goes on."""

    def mark(self) -> float:
        return time.perf_counter()

    def passed(self, mark: float) -> bool:
        return True

    def between(self, start: float, end: float) -> float:
        return end - start


class CudaClock:
    """Events with timing. A mark belongs to the stream that is current when it is made."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def passed(self, mark: torch.cuda.Event) -> bool:
        return mark.query()

    def between(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return start.elapsed_time(end) / 1000


def clock_for(device: torch.device) -> Clock:
    return CudaClock() if device.type == "cuda" else HostClock()
