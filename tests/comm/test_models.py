"""Models that are not what a hook expects: several dtypes, channels-last, next to nothing, unused, frozen half-way."""

from __future__ import annotations

import torch
from torch import nn

from tests.comm import scenario
from tests.comm.scenario import EVERY
from trainer.comm.base import CommHook
from trainer.mesh import Mesh


def _unusual(mesh: Mesh, spec: CommHook) -> tuple[list[bool], list[torch.Tensor]]:
    """Whether all gradients of used parameters are finite, step by step, and the weights at the end."""
    module = scenario.Mixed()
    ddp, _ = scenario.wrap(module, mesh, spec, find_unused_parameters=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-2)
    finite = []
    for step in range(5):
        skip = step == 1
        if step == 3:
            module.fp64.requires_grad_(False)
        optimizer.zero_grad()
        ddp(scenario.inputs(mesh, step), skip).backward()
        used = [p for name, p in module.named_parameters() if p.requires_grad and not (skip and "last" in name)]
        finite.append(all(bool(p.grad.isfinite().all()) for p in used))
        optimizer.step()
    return finite, [p.detach().clone() for p in module.parameters()]


def test_mixed_dtypes_unused_and_frozen_parameters_work_and_leave_replicas_equal(workers):
    ranks = workers(2, scenario.each, _unusual, EVERY)
    for name in EVERY:
        (finite, first), (_, second) = (rank[name] for rank in ranks)
        assert finite == [True] * 5, name
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True)), name


def _small(mesh: Mesh, spec: CommHook) -> torch.Tensor:
    module = nn.Linear(2, 1, bias=False)
    ddp, _ = scenario.wrap(module, mesh, spec)
    ddp(torch.full((1, 2), mesh.rank + 1.0)).sum().backward()
    return module.weight.grad


def test_a_tiny_model_travels_dense_and_exact(workers):
    for name, gradient in workers(2, scenario.each, _small, EVERY)[0].items():
        assert torch.equal(gradient, torch.full((1, 2), 1.5)), name


def _with_nothing(mesh: Mesh, spec: CommHook) -> bool:
    """A parameter without elements travels beside others; DDP gives it a bucket of its own where its dtype differs."""
    module = scenario.tiny()
    module[0].void = nn.Parameter(torch.empty(0, dtype=torch.float64))
    module[0].register_forward_hook(lambda layer, _, output: output + layer.void.sum().float())
    ddp, _ = scenario.wrap(module, mesh, spec)
    for step in range(2):
        module.zero_grad()
        scenario.backward(ddp, mesh, step)
    return all(bool(p.grad.isfinite().all()) and p.grad.shape == p.shape for p in module.parameters())


def test_parameters_without_elements_do_no_harm(workers):
    assert workers(2, scenario.each, _with_nothing, EVERY) == [dict.fromkeys(EVERY, True)] * 2
