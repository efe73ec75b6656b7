"""Replicas that take steps of their own, all in one process, without anything that the trainer uses for it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from tests.sync import scenario
from tests.sync.scenario import Case

Parameters = list[dict[str, Tensor]]


def simulate(
    case: Case, size: int, warmup: int, meet: Callable[[int, Parameters], None], own: int = 0
) -> list[dict[str, Tensor]]:
    """The parameters of replica `own` after each step.

    After their step `number` from the warm-up's end `meet(number, parameters)` changes all replicas' parameters.
    """
    torch.manual_seed(0)
    nets = [case.model().to(case.dtype)]
    nets += [copy.deepcopy(nets[0]) for _ in range(size - 1)]
    optimizers = [case.optimizer(net) for net in nets]
    history = []
    for step in range(case.steps):
        for rank, (net, optimizer) in enumerate(zip(nets, optimizers, strict=True)):
            scenario.set_rates(optimizer.param_groups, step, case)
            inputs, targets = scenario.batch(SimpleNamespace(rank=rank, sizes={"data": size}), step, case.dtype)
            for x, y in zip(inputs.chunk(case.microbatches), targets.chunk(case.microbatches), strict=True):
                (case.loss(net(x), y) / case.microbatches).backward()
        if step < warmup:
            for same in zip(*(net.parameters() for net in nets), strict=True):
                mean = sum(parameter.grad for parameter in same) / size
                for parameter in same:
                    parameter.grad = mean.clone()
        for net, optimizer in zip(nets, optimizers, strict=True):
            if case.max_norm is not None:
                nn.utils.clip_grad_norm_(net.parameters(), case.max_norm)
            optimizer.step()
            optimizer.zero_grad()
        if step >= warmup:
            meet(step - warmup + 1, [{n: p.data for n, p in net.named_parameters()} for net in nets])
        history.append({name: p.detach().clone() for name, p in nets[own].named_parameters()})
    return history


def mean(replicas: Parameters, name: str) -> Tensor:
    return sum(parameters[name] for parameters in replicas) / len(replicas)
