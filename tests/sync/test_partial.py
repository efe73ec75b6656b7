"""Steps for some parameters add up to a step for all."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from trainer.sync.partial import PartialOptimizer

OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (torch.optim.AdamW, {"lr": 0.1, "amsgrad": True}),
    (torch.optim.AdamW, {"lr": 0.1, "fused": True}),
    (torch.optim.RMSprop, {"lr": 0.1, "centered": True}),
    (torch.optim.Adagrad, {"lr": 0.1}),
    (torch.optim.Adadelta, {"lr": 0.1}),
    (torch.optim.Adamax, {"lr": 0.1}),
    (torch.optim.NAdam, {"lr": 0.1}),
    (torch.optim.RAdam, {"lr": 0.1}),
    (torch.optim.ASGD, {"lr": 0.1}),
    (torch.optim.Rprop, {"lr": 0.1}),
    (torch.optim.Adafactor, {"lr": 0.1}),
]


def _two(kind: type, options: dict) -> list[tuple[nn.Module, torch.optim.Optimizer]]:
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    return [
        (net, kind([{"params": net[0].parameters(), "lr": 0.05}, {"params": net[1].parameters()}], **options))
        for net in (one, copy.deepcopy(one))
    ]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS, ids=lambda value: getattr(value, "__name__", ""))
def test_parts_add_up_to_the_whole_bitwise(kind, options):
    (whole, optimizer), (parts, other) = _two(kind, options)
    partial = PartialOptimizer(other)
    for step in range(4):
        gradients = [torch.randn(p.shape, generator=torch.Generator().manual_seed(step)) for p in whole.parameters()]
        for parameter, gradient in zip(whole.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        parameters = list(parts.parameters())
        for some in (slice(2, 4), slice(0, 1), slice(1, 2)):
            partial.step(parameters[some], gradients[some], partial.rates())
    for (name, one), other_one in zip(whole.named_parameters(), parts.parameters(), strict=True):
        assert torch.equal(one, other_one), name
    one, two = optimizer.state_dict(), other.state_dict()
    assert one["param_groups"] == two["param_groups"]
    for number, entries in one["state"].items():
        for name, value in entries.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(two["state"][number][name])), name


def test_the_rates_of_the_call_count_and_the_optimizer_stays_as_it_is():
    (net, optimizer), _ = _two(torch.optim.SGD, {"lr": 0.1})
    before = [p.detach().clone() for p in net.parameters()]
    groups = optimizer.param_groups
    parameters = list(net.parameters())
    PartialOptimizer(optimizer).step(parameters[1:3], [torch.ones(3), torch.ones(2, 3)], [1.0, 2.0])
    for old, new, moved in zip(before, parameters, (0.0, 1.0, 2.0, 0.0), strict=True):
        torch.testing.assert_close(old - new, torch.full_like(new, moved), atol=1e-6, rtol=0)
    assert optimizer.param_groups is groups
    assert [group["lr"] for group in groups] == [0.05, 0.1]
    assert all(p.grad is None for p in parameters)


def test_a_state_that_was_loaded_is_the_one_that_is_used():
    (whole, optimizer), (parts, other) = _two(torch.optim.SGD, {"lr": 0.1, "momentum": 0.9})
    partial = PartialOptimizer(other)
    for parameter in whole.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    parts.load_state_dict(whole.state_dict())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    optimizer.step()
    parameters = list(parts.parameters())
    partial.step(parameters, [torch.ones_like(p) for p in parameters], partial.rates())
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), parameters, strict=True))
