"""torch.distributed.pipelining's own schedules, over the stages that our chain cuts."""

from __future__ import annotations

import itertools
from typing import Literal

import torch
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from scripts.bench.harness import Bare
from scripts.bench.task import Task
from trainer.data.loader import TrainingOrder, training_batches
from trainer.pipeline.cut import Chain


class _Dense(torch.nn.Module):
    """Replayed activations are one number, seen as many; torch's stages send what they are given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.contiguous()


def build(task: Task, schedule: Literal["1f1b", "gpipe"]) -> Bare:
    run, device, group = task.run, task.device, task.mesh.groups["pipeline"]
    rank, ranks, count = task.mesh.ranks["pipeline"], task.mesh.sizes["pipeline"], run.microbatches
    chain = Chain(task.model(), run.parallel.pipeline.split)
    bounds = chain.bounds(chain.begins)
    # Shapes are told, since torch would else run a forward pass of its own to find them.
    shapes = [torch.zeros(run.share // count, *run.data.sample().shape)]
    for first, stop in bounds:
        with torch.no_grad():
            left = chain.module(first, stop, chain.model)(shapes[-1])
        # Whether gradients come back is told by what is shown.
        shapes.append(torch.empty_like(left, memory_format=torch.contiguous_format, requires_grad=True))
    kept = chain.keep([bounds[rank]])
    stage = PipelineStage(
        torch.nn.Sequential(chain.module(*bounds[rank], kept), _Dense()),
        rank,
        ranks,
        device,
        input_args=(shapes[rank],),
        output_args=(shapes[rank + 1],),
        group=group,
    )
    kind = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[schedule]
    # The loss is divided here, not the gradients later.
    steps = kind(stage, count, loss_fn=lambda output, target: run.model.loss(output, target) / count, scale_grads=False)
    optimizer = run.optimizer.build(kept)
    order = TrainingOrder(run.data.count(), run.batch.size, task.mesh.ranks["data"], run.data_size, run.seed, 0)
    batches = itertools.chain.from_iterable(
        training_batches(task.dataset(), order, 0, 0, device) for _ in itertools.count()
    )

    def step() -> None:
        inputs, targets = next(batches)
        if rank == 0:
            steps.step(inputs)
        elif rank == ranks - 1:
            steps.step(target=targets, losses=[])
        else:
            steps.step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return Bare(step)
