"""The hand-written loop, on the model and data of the task."""

from __future__ import annotations

import functools

from torch.nn.parallel import DistributedDataParallel

from scripts.bench.hand_written import train
from scripts.bench.harness import Bare
from scripts.bench.task import Task


def wrap(task: Task, bucket_cap_mb: float | None = None) -> DistributedDataParallel:
    """The task's model under DDP, whose own default is a first bucket of 1 MiB and then 25."""
    return DistributedDataParallel(task.model().to(task.device), process_group=task.group, bucket_cap_mb=bucket_cap_mb)


def loop(task: Task, model: DistributedDataParallel) -> Bare:
    run = task.run
    optimizer = run.optimizer.build(model)
    training = train(model, optimizer, run.model.loss, task.dataset(), run.share, run.seed, task.device)
    return Bare(functools.partial(next, training))


def build(task: Task, bucket_cap_mb: float | None = None) -> Bare:
    return loop(task, wrap(task, bucket_cap_mb))
