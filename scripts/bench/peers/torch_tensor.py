"""torch's own tensor parallelism, on DTensors, over the layers that the model's plan names."""

from __future__ import annotations

import functools

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from scripts.bench.hand_written import train
from scripts.bench.harness import Bare
from scripts.bench.task import Task
from trainer.tensor.check import plan_of


def build(task: Task) -> Bare:
    run, model = task.run, task.model().to(task.device)
    plan = plan_of(model)
    styles: dict[str, ParallelStyle] = {}
    for region in plan.regions:
        styles |= {f"{region.module}.{name}": ColwiseParallel() for name in region.columns}
        styles |= {f"{region.module}.{name}": RowwiseParallel() for name in region.rows}
    mesh = DeviceMesh.from_group(task.mesh.groups["tensor"], task.device.type)
    model = parallelize_module(model, mesh, styles)
    # torch has no fused update of DTensors.
    kinds = [[p for p in model.parameters() if isinstance(p, DTensor) is shared] for shared in (True, False)]
    like = run.optimizer.build(model)
    groups = [{"params": kinds[0], "fused": False, "foreach": True}, {"params": kinds[1]}]
    optimizer = type(like)(groups, **like.defaults)
    training = train(model, optimizer, run.model.loss, task.dataset(), run.share, run.seed, task.device)
    return Bare(functools.partial(next, training))
