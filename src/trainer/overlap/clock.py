"""Marks in time: on a CPU the monotonic clock, on a GPU events on the current stream, never waited for."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch


class Clock(Protocol):
    def mark(self) -> Any:
        """A mark of now, in the order of the work given so far."""

    def passed(self, mark: Any) -> bool:
        """Whether the work before `mark` is done, so that the clock can read it."""

    def between(self, start: Any, end: Any) -> float:
        """Seconds from one passed mark to another."""

    def moment(self, mark: Any) -> float:
        """When a passed mark was, in seconds of the host's monotonic clock."""

    def release(self, mark: Any) -> None:
        """The mark has been read for the last time."""

    def anchor(self) -> None:
        """Tie marks to the host's clock anew. Called where the host has just waited for the device anyway."""


class HostClock:
    """Work that blocks the calling thread is done when the thread goes on."""

    def mark(self) -> float:
        return time.perf_counter()

    def passed(self, mark: float) -> bool:
        return True

    def between(self, start: float, end: float) -> float:
        return end - start

    def moment(self, mark: float) -> float:
        return mark

    def release(self, mark: float) -> None:
        """A number needs no care."""

    def anchor(self) -> None:
        """Marks are the host's own."""


class CudaClock:
    """Events with timing, from a pool. A mark belongs to the stream that is current when it is made."""

    def __init__(self, device: torch.device) -> None:
        # A stream of its own is idle, so its event passes at once.
        self._stream = torch.cuda.Stream(device)
        self._pool: list[torch.cuda.Event] = []
        self.anchor()

    def mark(self) -> torch.cuda.Event:
        # Threads share the pool; a list's own pop and append are atomic.
        try:
            event = self._pool.pop()
        except IndexError:
            event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def passed(self, mark: torch.cuda.Event) -> bool:
        return mark.query()

    def between(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return start.elapsed_time(end) / 1000

    def release(self, mark: torch.cuda.Event) -> None:
        self._pool.append(mark)

    def moment(self, mark: torch.cuda.Event) -> float:
        return self._anchored_at + self.between(self._anchor, mark)

    def anchor(self) -> None:
        self._anchor = torch.cuda.Event(enable_timing=True)
        self._anchor.record(self._stream)
        self._anchor.synchronize()
        self._anchored_at = time.perf_counter()


def clock_for(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else HostClock()
