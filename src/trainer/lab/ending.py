"""End what runs in namespaces: processes that are not our children, by id, until they are gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable

from trainer.lab import kernel

# Seconds between asking a process to end and making it.
GRACE_S = 5.0
# While some are being ended, others may start.
ROUNDS = 3


def processes_in(namespaces: Iterable[str]) -> set[int]:
    """The ids of all processes in these namespaces."""
    return {process for namespace in namespaces for process in kernel.processes(namespace)}


def empty(namespaces: Collection[str], spared: Collection[int] = ()) -> None:
    """End every process in these namespaces but the spared ones: SIGTERM, after 5 s SIGKILL."""
    for _ in range(ROUNDS):
        if not (processes := processes_in(namespaces).difference(spared)):
            return
        _end(processes)


def _end(processes: Iterable[int]) -> None:
    # A file descriptor stands for the process itself, so that no later process of the same id is meant.
    alive = {}
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            alive[os.pidfd_open(process)] = process
    for number in (signal.SIGTERM, signal.SIGKILL):
        for descriptor in alive:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        _wait(alive, time.monotonic() + GRACE_S)
    for descriptor in alive:
        os.close(descriptor)


def _wait(alive: dict[int, int], until: float) -> None:
    """Take from `alive` what ends before the monotonic time `until`, in seconds."""
    poll = select.poll()
    for descriptor in alive:
        poll.register(descriptor, select.POLLIN)
    while alive and (left_s := until - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left_s * 1000):
            poll.unregister(descriptor)
            os.close(descriptor)
            del alive[descriptor]
