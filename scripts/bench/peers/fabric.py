"""Lightning Fabric: the same loop with its model, optimizer and data set up by Fabric."""

# https://lightning.ai/docs/fabric/stable/fundamentals/convert.html

from __future__ import annotations

from lightning.fabric import Fabric
from torch.utils.data import DataLoader

from scripts.bench.harness import Bare
from scripts.bench.quiet import quieten
from scripts.bench.task import Task


def build(task: Task) -> Bare:
    quieten("lightning")
    run = task.run
    fabric = Fabric(
        accelerator=task.device.type,
        devices=task.processes,
        num_nodes=task.mesh.world // task.processes,
        strategy="ddp",
    )
    fabric.launch()
    model = task.model()
    model, optimizer = fabric.setup(model, run.optimizer.build(model))
    dataset = task.dataset()
    loader = fabric.setup_dataloaders(DataLoader(dataset, batch_size=run.share, shuffle=True, drop_last=True))

    def batches():
        while True:
            yield from loader

    endless = batches()

    def step() -> None:
        inputs, targets = next(endless)
        optimizer.zero_grad()
        loss = run.model.loss(model(inputs), targets)
        fabric.backward(loss)
        optimizer.step()

    return Bare(step)
