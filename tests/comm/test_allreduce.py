"""The exact average: bitwise what DDP does without a hook, and the bytes of its closed form."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.comm.allreduce import AllReduce
from trainer.mesh import Mesh


def _gradients(mesh: Mesh, with_hook: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)), nn.Linear(64, 3, dtype=torch.float32))
    group = mesh.groups["data"]
    # A bucket closes after each layer, so several travel at once.
    ddp = DistributedDataParallel(net, process_group=group, bucket_cap_mb=0.01)
    if with_hook:
        ddp.register_comm_hook(*AllReduce().build(group))
    torch.manual_seed(1 + mesh.rank)
    for _ in range(3):
        net.zero_grad()
        ddp(torch.randn(5, 64)).square().sum().backward()
    return [p.grad.clone() for p in net.parameters()]


def test_gradients_are_bitwise_those_without_a_hook(workers):
    for size in (2, 3):
        plain = workers(size, _gradients, False)
        hooked = workers(size, _gradients, True)
        for ours, torchs in zip(hooked, plain, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, torchs, strict=True))


def test_the_closed_form_counts_a_ring():
    assert AllReduce().bytes_sent(None, 1000, 1) == 0
    assert AllReduce().bytes_sent(None, 1000, 2) == 1000
    assert AllReduce().bytes_sent(None, 1000, 4) == 1500
