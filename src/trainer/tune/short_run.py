"""A run of a few steps that leaves nothing behind, for what they take."""

from __future__ import annotations

import logging
import signal
import sys
import time
from typing import NamedTuple

import torch

from trainer.assemble import assemble
from trainer.control import Control
from trainer.logger.base import Metrics, Picture, Writer
from trainer.loop import steps
from trainer.mesh import Mesh
from trainer.profile.base import Profile as Recordings
from trainer.run import Checkpoint, Run

log = logging.getLogger(__name__)

# Steps that pass before any are timed: DDP cuts its buckets anew after its first, and memory warms up.
WARMUP = 3


class Steps(NamedTuple):
    """What some steps in a row took on this rank."""

    seconds: list[float]
    """of each"""
    cpu_s: float
    """of all together"""
    lines: list[Metrics]
    """with those of the first steps"""


def quiet(run: Run, count: int, every: int) -> Run:
    """`run` for `count` steps after the first ones, without checkpoints, evaluation and logs; metrics `every` steps."""
    return run.model_copy(
        update={
            "logger": {},
            "checkpoint": Checkpoint(every=None),
            "evaluate": run.evaluate.model_copy(update={"every": None}),
            "log": run.log.model_copy(update={"every": every}),
            "profile": Recordings(),
            # One more than will be done, so that no step is the last, which evaluates.
            "steps": WARMUP + count + 1,
        }
    )


def take(run: Run, count: int, mesh: Mesh, device: torch.device, control: Control) -> Steps:
    """Do `count` steps of a quiet `run` after the first ones; collective. Exits with 128 + n after signal n."""
    job, batches = assemble(run, mesh, device, control)
    job.writers[:] = [_Memory()]
    going = steps(job, batches)
    seconds, worked = [], 0.0
    for number in range(WARMUP + count):
        if number == WARMUP:
            worked = time.process_time()
        began = time.perf_counter()
        next(going, None)
        if control.stopped_by:
            log.info("tune: stopped by %s; nothing was chosen", signal.Signals(control.stopped_by).name)
            sys.exit(128 + control.stopped_by)
        if device.type == "cuda":
            # Steps are launched ahead of the device.
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - began)
    cpu_s = time.process_time() - worked
    with job.synchroniser.whole():
        pass
    for recording in job.recordings:
        recording.close()
    job.close()
    return Steps(seconds[WARMUP:], cpu_s, job.history)


class _Memory(Writer):
    """Nothing is kept but the job's own history."""

    def write(self, step: int, metrics: Metrics) -> None:
        return

    def draw(self, picture: Picture) -> None:
        return

    def close(self) -> None:
        return
