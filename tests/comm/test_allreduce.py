"""The exact average: bitwise what DDP does without a hook, in whatever way DDP is used, and the bytes of a ring."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from tests.comm import scenario
from trainer.comm.allreduce import AllReduce
from trainer.mesh import Mesh

STEPS = 6


def _train(
    mesh: Mesh, hooked: bool, accumulate: bool = False, freeze: bool = False, skip: bool = False, **options: Any
) -> list[torch.Tensor]:
    """Weights of mixed dtypes after six steps in many buckets, between which the learning rate falls.

    `accumulate` adds up two passes a step, `freeze` stops training a part half-way, `skip` leaves one out of each pass.
    """
    module, group = scenario.Mixed(), mesh.groups["data"]
    ddp = DistributedDataParallel(module, process_group=group, bucket_cap_mb=scenario.BUCKET_MB, **options)
    if hooked:
        ddp.register_comm_hook(*AllReduce().build(group))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        if step == STEPS // 2:
            optimizer.param_groups[0]["lr"] = 0.01
            module.fp64.requires_grad_(not freeze)
        optimizer.zero_grad()
        for part in range(2 if accumulate else 1):
            with ddp.no_sync() if accumulate and part == 0 else contextlib.nullcontext():
                ddp(scenario.inputs(mesh, 2 * step + part), skip).backward()
        optimizer.step()
    return [p.detach().clone() for p in module.parameters()]


USES: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulation": {"accumulate": True},
    "gradient_as_bucket_view": {"gradient_as_bucket_view": True},
    "static_graph": {"static_graph": True},
    "unused parameters": {"find_unused_parameters": True, "skip": True},
    "frozen half-way": {"find_unused_parameters": True, "freeze": True},
}


def _differing(mesh: Mesh) -> list[str]:
    """The uses of DDP in which the hook leads to other weights than no hook does."""
    found = []
    for name, use in USES.items():
        pairs = zip(_train(mesh, False, **use), _train(mesh, True, **use), strict=True)
        found += [name] if not all(torch.equal(a, b) for a, b in pairs) else []
    if "batched_grad_copy" in inspect.signature(DistributedDataParallel).parameters:
        # It divides where DDP otherwise multiplies, so only the hook's own results can be compared.
        pairs = zip(_train(mesh, True), _train(mesh, True, batched_grad_copy=True), strict=True)
        found += ["batched_grad_copy"] if not all(torch.equal(a, b) for a, b in pairs) else []
    return found


@pytest.mark.parametrize("size", [2, 3, 4])
def test_weights_are_bitwise_those_without_a_hook(workers, size):
    assert workers(size, _differing) == [[]] * size


def test_the_closed_form_counts_a_ring():
    assert AllReduce().bytes_sent(None, 1000, 1) == 0
    assert AllReduce().bytes_sent(None, 1000, 2) == 1000
    assert AllReduce().bytes_sent(None, 1000, 4) == 1500
