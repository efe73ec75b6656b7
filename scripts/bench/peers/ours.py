"""This trainer, as `python train.py` runs it; `comm=noop` is the floor of compute alone."""

from __future__ import annotations

import functools

from scripts.bench.harness import Bare
from scripts.bench.task import Task
from trainer.assemble import assemble
from trainer.loop import steps


def build(task: Task) -> Bare:
    job, batches = assemble(task.run, task.mesh, task.device, task.control)
    return Bare(functools.partial(next, steps(job, batches)))
