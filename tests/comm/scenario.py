"""What the tests of several hooks run on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.comm.allreduce import AllReduce
from trainer.comm.base import CommHook
from trainer.comm.bf16 import BF16
from trainer.comm.compressed import Compressed, Compressor
from trainer.comm.fp16 import FP16
from trainer.comm.int8 import Int8
from trainer.comm.onebit import OneBit
from trainer.comm.powersgd import PowerSGD
from trainer.comm.randomk import RandomK
from trainer.comm.topk import TopK
from trainer.mesh import Mesh

WIDTH = 40
BUCKET_MB = 0.012
"""closes a bucket after about two layers of `net`"""

COMPRESSED: dict[str, Compressed] = {
    "topk": TopK(ratio=0.05),
    "topk-fp16": TopK(ratio=0.05, values="fp16"),
    "topk-warmup": TopK(ratio=0.05, warmup_steps=2),
    "randomk": RandomK(ratio=0.05),
    "int8": Int8(),
    "onebit": OneBit(agree_every=3),
    "powersgd": PowerSGD(rank=2),
}
HALVES: dict[str, CommHook] = {"fp16": FP16(), "bf16": BF16()}
EVERY: dict[str, CommHook] = {"allreduce": AllReduce(), **HALVES, **COMPRESSED}


def each(mesh: Mesh, function: Callable[..., Any], specs: Mapping[str, CommHook], *arguments: Any) -> dict[str, Any]:
    """What `function(mesh, spec, *arguments)` returns for every spec: one launch shows all hooks."""
    return {name: function(mesh, spec, *arguments) for name, spec in specs.items()}


def net(dtype: torch.dtype = torch.float32) -> nn.Module:
    """Matrices of 1,600 elements, which travel compressed, and biases of 40, which do not."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(5))).to(dtype)


def tiny(dtype: torch.dtype = torch.float32) -> nn.Module:
    """Fewer elements than ranks in some parameters, and none at all in one."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(WIDTH, 1), nn.Linear(1, 1), nn.Linear(1, 3)).to(dtype)
    module[1].nothing = nn.Parameter(torch.empty(0, dtype=dtype))
    module[1].register_forward_hook(lambda layer, _, output: output + layer.nothing.sum())
    return module


class Mixed(nn.Module):
    """Parameters of three dtypes, channels-last, of one element, and some that may stay unused."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(8, 32, 3).to(memory_format=torch.channels_last)
        self.fp64 = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(3)))
        self.bf16 = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, dtype=torch.bfloat16) for _ in range(3)))
        self.last = nn.Linear(WIDTH, WIDTH)
        self.single = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, skip: bool = False) -> torch.Tensor:
        image = x[:, :1].view(-1, 1, 1, 1).expand(-1, 8, 5, 5).contiguous(memory_format=torch.channels_last)
        total = (
            self.convolution(image).square().mean()
            + self.fp64(x.double()).square().mean().float()
            + self.bf16(x.bfloat16()).float().square().mean()
            + self.single(x[:, :1]).mean()
        )
        return total if skip else total + self.last(x).square().mean()


def wrap(module: nn.Module, mesh: Mesh, spec: CommHook, **options: Any) -> tuple[DistributedDataParallel, Any]:
    """DDP with the hook of `spec`, as any program would write it."""
    ddp = DistributedDataParallel(module, process_group=mesh.groups["data"], bucket_cap_mb=BUCKET_MB, **options)
    state, hook = spec.build(mesh.groups["data"])
    ddp.register_comm_hook(state, hook)
    return ddp, state


def inputs(mesh: Mesh, step: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Data that differ between ranks and steps."""
    generator = torch.Generator().manual_seed(1000 * step + mesh.rank)
    return torch.randn(8, WIDTH, generator=generator, dtype=torch.float64).to(dtype)


def backward(ddp: nn.Module, mesh: Mesh, step: int, dtype: torch.dtype = torch.float32) -> None:
    ddp(inputs(mesh, step, dtype)).square().sum().backward()


def mass(
    mesh: Mesh,
    spec: CommHook,
    steps: int,
    make: Callable[[torch.dtype], nn.Module] = net,
    options: Mapping[str, Any] = {},
    dtype: torch.dtype = torch.float64,
) -> list[dict[str, tuple[torch.Tensor, ...]]]:
    """For each step and compressed parameter: own gradient, residual before, residual after, result."""
    module = make(dtype)
    ddp = DistributedDataParallel(module, process_group=mesh.groups["data"], bucket_cap_mb=BUCKET_MB, **options)
    state, hook = spec.build(mesh.groups["data"])
    own: dict[int, torch.Tensor] = {}

    def watched(state: Compressor, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            own[id(parameter)] = gradient.clone()
        return hook(state, bucket)

    watched.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    ddp.register_comm_hook(state, watched)

    def residual(parameter: torch.Tensor) -> torch.Tensor:
        kept = state.memory.get(parameter, "residual")
        return torch.zeros_like(parameter) if kept is None else kept.clone().view_as(parameter)

    seen = []
    for step in range(steps):
        before = {name: residual(p) for name, p in module.named_parameters()}
        module.zero_grad()
        backward(ddp, mesh, step, dtype)
        seen.append(
            {
                name: (own[id(p)], before[name], residual(p), p.grad.clone())
                for name, p in module.named_parameters()
                if state.memory.get(p, "residual") is not None
            }
        )
    return seen


def assert_conserved(ranks: list[list[dict[str, tuple[torch.Tensor, ...]]]], spelled: str) -> None:
    """In what `mass` saw on all ranks, gradients and old residuals make N times the result and the new residuals."""
    checked = 0
    for step in zip(*ranks, strict=True):
        for name in step[0]:
            own, before, after, result = (torch.stack(p) for p in zip(*(rank[name] for rank in step), strict=True))
            torch.testing.assert_close(
                (own + before).sum(0),
                len(ranks) * result[0] + after.sum(0),
                atol=1e-10,
                rtol=1e-12,
                msg=lambda message, name=name: f"{spelled}, {name}: {message}",
            )
            checked += 1
    # Some parameters were compressed in every step but a warm-up's.
    assert checked >= 3 * (len(ranks[0]) - 2), spelled


def weights_after(mesh: Mesh, spec: CommHook, steps: int) -> list[torch.Tensor]:
    """Weights after some steps of SGD."""
    module = net()
    ddp, _ = wrap(module, mesh, spec)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    for step in range(steps):
        optimizer.zero_grad()
        backward(ddp, mesh, step)
        optimizer.step()
    return [p.detach().clone() for p in module.parameters()]


def bytes_of_a_step(mesh: Mesh, spec: CommHook, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """Bytes a rank sends in one step after the first: as the hook counts them, and by the sizes of its collectives."""
    ddp, state = wrap(net(dtype), mesh, spec)
    backward(ddp, mesh, 0, dtype)
    backward(ddp, mesh, 1, dtype)
    state.take_bytes()
    size, sent = mesh.sizes["data"], [0.0]

    def counted(name: str, share: Callable[[torch.Tensor], float]) -> Callable[..., Any]:
        original = getattr(dist, name)

        def call(tensor: torch.Tensor, **options: Any) -> Any:
            sent[0] += share(tensor)
            return original(tensor, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "all_reduce", counted("all_reduce", lambda flat: 2 * (size - 1) / size * flat.nbytes))
        patch.setattr(dist, "isend", counted("isend", lambda message: message.nbytes))
        backward(ddp, mesh, 2, dtype)
    return state.take_bytes(), sent[0]
