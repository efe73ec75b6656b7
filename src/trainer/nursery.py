"""A process that has loaded what workers need, and from which they are forked in a moment.

It loads while the launcher composes and checks, so the two do not wait for each other. It computes nothing and opens no
device, which is what makes a fork of it safe.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing import forkserver, resource_tracker
from typing import Any

from trainer import signals

# What nearly every worker imports; other modules it loads itself.
PRELOADED = ["trainer.nursery_begin", "trainer.worker", "torchvision"]
START_METHOD = "forkserver"
# glibc gives a large tensor's memory back to the system when it is freed, and every page of the next one is a fault:
# several times the cost of filling it. Read when a process starts.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**33)}


# The environment that the process began with, and that all which is forked from it has.
_environment: dict[str, str] = {}


def open_early() -> None:
    """Start loading. Workers that are started with START_METHOD come from here.

    In a sweep the process serves all runs, as long as they have the same environment.
    """
    for name, value in MEMORY.items():
        os.environ.setdefault(name, value)
    if _environment != dict(os.environ):
        close()
        _environment.clear()
        _environment.update(os.environ)
    multiprocessing.get_context(START_METHOD).set_forkserver_preload(PRELOADED)
    # Apart, since the first of these programs, which the other is started with, ends the deafness to SIGTERM.
    for start in (resource_tracker.ensure_running, forkserver.ensure_running):
        with signals.deaf_children():
            start()


def close() -> None:
    """End the process, at once even while it is still loading; without it nothing would do so before it has loaded."""
    # The standard library ends it when this process ends; only its private parts can be told to do it now.
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()
