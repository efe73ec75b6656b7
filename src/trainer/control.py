"""How ranks agree to stop: a signal may reach one rank earlier than another, or only one of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import FrameType

import torch
import torch.distributed as dist

from trainer.signals import STOPPING

# Seconds in which a stopped rank must get to its next step. A rank that hangs in a collective with a dead peer never
# does; a slow step gets twice the time that the slowest so far took.
GRACE_S = 8.0


class Control:
    """Turns the signals of STOPPING into one decision of all ranks to stop after the same step.

    1. A thread of its own learns of the signals, so that they are seen while the main thread waits in a collective.
    2. In every step each rank contributes the signal it got, or 0, to a small all-reduce on the control group, which
    nobody waits for. 3. The result is read in the next step, by when it has long arrived, and is the same on all ranks.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.stopped_by = 0
        """the signal that made all ranks stop, or 0"""
        self._told = threading.Event()
        self._signal = 0
        self._patient = False
        self._left = threading.Event()
        self._slowest_s = 0.0
        self._stepped_at = time.monotonic()
        self._pending: tuple[dist.Work, torch.Tensor] | None = None
        # Both ends stay open: signals of other kinds come when the thread has ended, too.
        self._ours, self._pythons = socket.socketpair()
        self._pythons.setblocking(False)
        # Python writes each signal's number here at once, whichever thread is interrupted; a Python handler would run
        # only when the main thread comes back from its collective.
        signal.set_wakeup_fd(self._pythons.fileno(), warn_on_full_buffer=False)
        for number in STOPPING:
            signal.signal(number, _wake)
        threading.Thread(target=self._receive, args=[self._ours], name="signals", daemon=True).start()

    def step(self) -> bool:
        """Call once a step, on all ranks; True, on all ranks in the same step, once any of them was told to stop."""
        now = time.monotonic()
        self._slowest_s, self._stepped_at = max(self._slowest_s, now - self._stepped_at), now
        if self._pending is not None:
            work, told = self._pending
            work.wait()
            self.stopped_by = int(told.item())
        mine = torch.tensor([self._signal])
        work = dist.all_reduce(mine, op=dist.ReduceOp.MAX, group=self.group, async_op=True)
        self._pending = (work, mine)
        if self.stopped_by:
            self.leave()
        return self.stopped_by != 0

    @contextlib.contextmanager
    def patience(self) -> Iterator[None]:
        """Within it the rank is at work that is no step, such as an evaluation, and may take as long as it needs."""
        self._patient = True
        try:
            yield
        finally:
            self._patient, self._stepped_at = False, time.monotonic()

    def told_within(self, seconds: float) -> bool:
        """Wait until this rank is told to stop; whether that happened in time."""
        return self._told.wait(seconds)

    def leave(self) -> None:
        """The rank is past its last step: from here on it may take as long as it needs to save and go."""
        if self._pending is not None:
            self._pending[0].wait()
            self._pending = None
        self._left.set()

    def _receive(self, wakeups: socket.socket) -> None:
        while (number := wakeups.recv(1)[0]) not in STOPPING:
            continue
        self._signal = number
        self._told.set()
        while not self._left.wait(max(GRACE_S, 2 * self._slowest_s)):
            if self._patient:
                continue
            # No exception would reach a main thread that waits inside a collective.
            os._exit(128 + signal.SIGTERM)


def _wake(number: int, frame: FrameType | None) -> None:
    """A handler must exist for the wakeup to be written; the thread does the rest."""
