"""The signals that tell a run to save a checkpoint and leave, and which of its processes are deaf to them.

A terminal sends Ctrl-C to every process that it sees, and Slurm sends each signal of its own to every process of a
step. So whatever serves the workers must not end before they have saved.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

# What `sbatch --signal` sends before the time is up: USR1 by custom, and USR2 by submitit.
BY_CUSTOM = (signal.SIGUSR1, signal.SIGUSR2)
# Ctrl-C, and a scheduler that preempts.
STOPPING = (signal.SIGINT, signal.SIGTERM, *BY_CUSTOM)
CODES = tuple(128 + number for number in STOPPING)


def ignore_stopping() -> None:
    """This process is ended by those it serves, when they have saved."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def deaf_children() -> Iterator[None]:
    """Programs that are started within it are deaf to these signals all their lives, but for Ctrl-C.

    This process hears them when it leaves.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING[1:])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_after_fork() -> None:
    """Processes that are forked from this one, which is deaf, are not."""
    os.register_at_fork(after_in_child=_end_by_default)


def _end_by_default() -> None:
    for number in STOPPING[1:]:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING[1:])
