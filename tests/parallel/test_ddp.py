"""The data axis: what is wrapped, and with which options."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.comm.allreduce import AllReduce
from trainer.mesh import Mesh
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate, share_buffers


def _wrapped(mesh: Mesh, frozen: bool, unused: bool) -> tuple[bool, list[bool]]:
    net = nn.ModuleDict({"used": nn.Linear(4, 4), "idle": nn.Linear(4, 4)})
    net.forward = lambda x: net["used"](x)
    net.requires_grad_(not frozen)
    axis = DataAxis(find_unused_parameters=unused)
    module = replicate(net, axis, mesh.groups["data"], *AllReduce().build(mesh.groups["data"]))
    if not frozen:
        for _ in range(3):
            module(torch.ones(1, 4)).sum().backward()
    return isinstance(module, DistributedDataParallel), [p.grad is not None for p in net.parameters()]


def test_replicas_are_wrapped_and_one_process_is_not(workers):
    assert workers(2, _wrapped, False, True)[0][0]
    assert not workers(1, _wrapped, False, False)[0][0]


def test_a_model_with_nothing_to_learn_is_left_alone(workers):
    assert not workers(2, _wrapped, True, False)[0][0]


def test_parameters_may_stay_unused_where_the_user_says_so(workers):
    assert all(used for used, _ in workers(2, _wrapped, False, True))


def _shared_buffers(mesh: Mesh) -> float:
    net = nn.BatchNorm1d(2)
    net.running_mean.fill_(mesh.rank + 1.0)
    share_buffers(net, mesh.groups["data"])
    return net.running_mean[0].item()


def test_buffers_are_shared_from_the_first_replica(workers):
    assert workers(3, _shared_buffers) == [1.0, 1.0, 1.0]
