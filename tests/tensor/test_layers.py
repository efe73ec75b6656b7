"""Shared layers on their own."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from trainer.mesh import Mesh
from trainer.overlap.clock import clock_for
from trainer.overlap.meter import Meter
from trainer.tensor.axis import Axis
from trainer.tensor.layers import ColumnLinear, Entry, RowLinear


def outlived(mesh: Mesh, sequence: bool, overlap: bool) -> bool:
    """Whether an activation is still there when its step is over, and no collector ran."""
    axis = Axis(mesh.groups["data"], Meter(clock_for(torch.device("cpu"))), sequence, overlap)
    column, row = ColumnLinear(nn.Linear(8, 16), axis), RowLinear(nn.Linear(16, 8), axis)
    entry = Entry(axis, [column])
    kept: list[weakref.ref[Tensor]] = []
    gc.disable()
    for _ in range(2):
        entered = entry(torch.randn(2, 4, 8, requires_grad=True))
        kept.append(weakref.ref(entered))
        row(column(entered)).sum().backward()
        del entered
    return any(activation() is not None for activation in kept)


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_step_leaves_no_activation_behind(workers, sequence, overlap):
    assert workers(2, outlived, sequence, overlap) == [False, False]
