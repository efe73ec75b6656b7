"""Hugging Face Accelerate: the same loop with its parts prepared by an Accelerator."""

# https://huggingface.co/docs/accelerate/basic_tutorials/migration

from __future__ import annotations

from accelerate import Accelerator
from torch.utils.data import DataLoader

from scripts.bench.harness import Bare
from scripts.bench.task import Task


def build(task: Task) -> Bare:
    run = task.run
    accelerator = Accelerator(cpu=task.device.type == "cpu")
    model = task.model()
    loader = DataLoader(task.dataset(), batch_size=run.share, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, run.optimizer.build(model), loader)

    def batches():
        while True:
            yield from loader

    endless = batches()

    def step() -> None:
        inputs, targets = next(endless)
        optimizer.zero_grad()
        loss = run.model.loss(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()

    return Bare(step)
