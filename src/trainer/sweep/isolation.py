"""What one run of a sweep must not leave to the next."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

from trainer.launch import Stopped
from trainer.signals import STOPPING


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Within it a run may set variables of the environment, handlers of signals and the working directory."""
    environment, folder = dict(os.environ), os.getcwd()
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        for number, handler in handlers.items():
            # The agent that starts the workers leaves its own behind.
            signal.signal(number, handler)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Within it a signal that comes between runs, when no run's own handler is there, raises Stopped."""
    handlers = {number: signal.signal(number, _stop) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)
