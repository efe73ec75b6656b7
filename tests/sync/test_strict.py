"""The reference rule: clip, step, clear."""

from __future__ import annotations

import torch
from torch import nn

from trainer.sync.strict import Strict

SCALER = torch.amp.GradScaler("cpu", enabled=False)


def test_a_step_is_the_optimizers_own_and_clears_the_gradients():
    net = nn.Linear(2, 1, bias=False)
    before = net.weight.detach().clone()
    net.weight.grad = torch.ones(1, 2)
    Strict().attach(net, torch.optim.SGD(net.parameters(), lr=0.5), SCALER, None).step()
    assert torch.equal(net.weight, before - 0.5)
    assert net.weight.grad is None


def test_the_global_norm_is_clipped_over_all_parameters():
    net = nn.ModuleList([nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)])
    before = [p.detach().clone() for p in net.parameters()]
    for parameter, gradient in zip(net.parameters(), (3.0, 4.0), strict=True):
        parameter.grad = torch.full((1, 1), gradient)
    Strict().attach(net, torch.optim.SGD(net.parameters(), lr=1.0), SCALER, 1.0).step()
    moved = [(old - new).item() for old, new in zip(before, net.parameters(), strict=True)]
    torch.testing.assert_close(torch.tensor(moved), torch.tensor([0.6, 0.8]), atol=1e-5, rtol=0)
