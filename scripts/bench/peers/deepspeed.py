"""DeepSpeed: its engine at ZeRO stage 0, which is plain data parallelism."""

# https://www.deepspeed.ai/getting-started

from __future__ import annotations

import deepspeed

from scripts.bench.harness import Bare
from scripts.bench.quiet import quieten
from scripts.bench.task import Task


def build(task: Task) -> Bare:
    quieten("DeepSpeed")
    run = task.run
    model = task.model()
    engine, _, loader, _ = deepspeed.initialize(
        model=model,
        optimizer=run.optimizer.build(model),
        training_data=task.dataset(),
        dist_init_required=False,
        config={"train_batch_size": run.batch.size, "train_micro_batch_size_per_gpu": run.share},
    )

    def batches():
        while True:
            yield from loader

    endless = batches()

    def step() -> None:
        inputs, targets = (part.to(task.device) for part in next(endless))
        loss = run.model.loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()

    return Bare(step)
