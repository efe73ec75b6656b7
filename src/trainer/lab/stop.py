"""Signals that ask netlab to stop, remembered instead of obeyed, so that what was begun is also ended."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """While entered: `number` is the first of SIGINT, SIGTERM and SIGHUP that came, and `fileno` becomes readable."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._ours, self._pythons = socket.socketpair()
        self._ours.setblocking(False)
        self._pythons.setblocking(False)

    def __enter__(self) -> Stop:
        self._wakeup = signal.set_wakeup_fd(self._pythons.fileno(), warn_on_full_buffer=False)
        # Under nohup a hang-up stays ignored.
        self._before = {n: signal.signal(n, self._note) for n in SIGNALS if signal.getsignal(n) != signal.SIG_IGN}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._ours.close()
        self._pythons.close()

    def fileno(self) -> int:
        """The file descriptor that is readable while `take` has something."""
        return self._ours.fileno()

    def take(self) -> list[int]:
        """The signals that came since the last call, in order."""
        with contextlib.suppress(BlockingIOError):
            return [number for number in self._ours.recv(4096) if number in SIGNALS]
        return []

    def code(self) -> int:
        """The exit code that tells of the signal, or 0 if there was none."""
        return 0 if self.number is None else 128 + self.number

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number = number
