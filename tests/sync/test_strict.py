"""The reference rule: clip, step, clear."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from tests.sync import scenario
from trainer.mesh import Mesh
from trainer.sync.strict import Strict


def _step(mesh: Mesh, gradients: list[float], max_norm: float | None) -> list[float]:
    """How far one step of plain SGD at a rate of a half moves weights that have these gradients."""
    case = scenario.Case(lambda net: torch.optim.SGD(net.parameters(), lr=0.5), dtype=torch.float32)
    replica = scenario.begin(mesh, Strict(), case).replica
    net = nn.ParameterList(torch.zeros(1) for _ in gradients)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    rule = Strict().attach(dataclasses.replace(replica, model=net, optimizer=optimizer, max_norm=max_norm))
    for parameter, gradient in zip(net, gradients, strict=True):
        parameter.grad = torch.tensor([gradient])
    rule.step()
    assert all(parameter.grad is None for parameter in net)
    return [-parameter.item() for parameter in net]


def test_a_step_is_the_optimizers_own_and_clears_the_gradients(workers):
    assert workers(1, _step, [1.0, 3.0], None) == [[0.5, 1.5]]


def test_the_global_norm_is_clipped_over_all_parameters(workers):
    (moved,) = workers(1, _step, [3.0, 4.0], 1.0)
    torch.testing.assert_close(torch.tensor(moved), torch.tensor([0.3, 0.4]), atol=1e-5, rtol=0)
