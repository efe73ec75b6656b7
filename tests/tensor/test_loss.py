"""The loss of logits that are shared out is torch's own of the whole."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from trainer.mesh import Mesh
from trainer.overlap.clock import clock_for
from trainer.overlap.meter import Meter
from trainer.tensor.axis import Axis
from trainer.tensor.loss import IGNORED, cross_entropy

CLASSES = 5
"""of which the first rank has three"""


def loss_and_gradient(mesh: Mesh, targets: list[int]) -> tuple[float, Tensor]:
    axis = Axis(mesh.groups["data"], Meter(clock_for(torch.device("cpu"))), False, True)
    whole = torch.randn(len(targets), CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    own = whole.chunk(2, 1)[axis.rank].clone().requires_grad_()
    loss = cross_entropy(own, torch.tensor(targets), axis.rank * 3, axis)
    loss.backward()
    assert own.grad is not None
    return loss.item(), own.grad


@pytest.mark.parametrize("targets", [[0, 3, 4, 2], [IGNORED, 1, IGNORED, 4]])
def test_it_is_torchs_own_and_padding_counts_for_nothing(workers, targets):
    whole = torch.randn(len(targets), CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole.requires_grad_()
    loss = torch.nn.functional.cross_entropy(whole, torch.tensor(targets))
    loss.backward()
    (first, left), (second, right) = workers(2, loss_and_gradient, targets)
    assert first == second == pytest.approx(loss.item(), abs=1e-12)
    torch.testing.assert_close(torch.cat([left, right], 1), whole.grad, atol=1e-12, rtol=0)


def test_a_target_that_no_rank_has_is_no_small_mistake(workers):
    assert all(math.isnan(loss) for loss, _ in workers(2, loss_and_gradient, [0, 7, 1]))
