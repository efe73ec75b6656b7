"""This trainer, as `python train.py` runs it; `comm=noop` is the floor of compute alone."""

from __future__ import annotations

from scripts.bench.task import Task
from trainer.assemble import assemble
from trainer.loop import steps


class _Trainer:
    def __init__(self, task: Task) -> None:
        self._job, batches = assemble(task.run, task.mesh, task.device, task.control)
        self._steps = steps(self._job, batches)

    def step(self) -> None:
        next(self._steps)

    def settle(self) -> None:
        with self._job.synchroniser.whole():
            pass

    def close(self) -> None:
        self._job.close()


def build(task: Task) -> _Trainer:
    return _Trainer(task)
