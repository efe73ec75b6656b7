"""What the tests of several hooks run on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.comm.base import CommHook
from trainer.comm.compressed import Compressor
from trainer.mesh import Mesh

WIDTH = 40


def net(dtype: torch.dtype = torch.float32) -> nn.Module:
    """Matrices of 1,600 elements, which travel compressed, and biases of 40, which do not."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(5))).to(dtype)


def wrap(module: nn.Module, mesh: Mesh, spec: CommHook, **options: Any) -> tuple[DistributedDataParallel, Any]:
    """DDP with the hook of `spec`, as any program would write it, in buckets of about two layers."""
    ddp = DistributedDataParallel(module, process_group=mesh.groups["data"], bucket_cap_mb=0.012, **options)
    state, hook = spec.build(mesh.groups["data"])
    ddp.register_comm_hook(state, hook)
    return ddp, state


def backward(ddp: nn.Module, mesh: Mesh, step: int, dtype: torch.dtype = torch.float32) -> None:
    """One backward pass on data that differ between ranks and steps."""
    generator = torch.Generator().manual_seed(1000 * step + mesh.rank)
    ddp(torch.randn(8, WIDTH, generator=generator, dtype=torch.float64).to(dtype)).square().sum().backward()


def mass(mesh: Mesh, spec: CommHook, steps: int, dtype: torch.dtype) -> list[dict[str, tuple[torch.Tensor, ...]]]:
    """For each step and compressed parameter: own gradient, residual before, residual after, result."""
    module = net(dtype)
    ddp = DistributedDataParallel(module, process_group=mesh.groups["data"], bucket_cap_mb=0.012)
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

    def counted(name: str, share: Callable[..., float]) -> Callable[..., Any]:
        original = getattr(dist, name)

        def call(*tensors: torch.Tensor, **options: Any) -> Any:
            sent[0] += share(*tensors)
            return original(*tensors, **options)

        return call

    shares = {
        "all_reduce": lambda flat: 2 * (size - 1) / size * flat.nbytes,
        "all_to_all_single": lambda received, messages: (size - 1) / size * messages.nbytes,
        "isend": lambda message: message.nbytes,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, share in shares.items():
            patch.setattr(dist, name, counted(name, share))
        backward(ddp, mesh, 2, dtype)
    return state.take_bytes(), sent[0]
