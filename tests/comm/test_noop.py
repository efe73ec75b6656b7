"""The ceiling: nothing travels."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.comm.noop import NoOp
from trainer.mesh import Mesh


def _own_gradient(mesh: Mesh) -> bool:
    net = nn.Linear(4, 1)
    ddp = DistributedDataParallel(net, process_group=mesh.groups["data"])
    ddp.register_comm_hook(*NoOp().build(mesh.groups["data"]))
    x = torch.full((2, 4), float(mesh.rank + 1))
    ddp(x).sum().backward()
    return torch.equal(net.weight.grad, x.sum(0, keepdim=True))


def test_every_rank_keeps_its_own_gradient(workers):
    assert workers(2, _own_gradient) == [True, True]


def test_nothing_is_sent():
    assert NoOp().bytes_sent(None, 1000, 8) == 0
