"""Random elements, the same on all ranks."""

from __future__ import annotations

import torch

from tests.comm import scenario
from trainer.comm.randomk import RandomK
from trainer.mesh import Mesh


def _support(mesh: Mesh, spec: RandomK) -> list[torch.Tensor]:
    steps = scenario.mass(mesh, spec, 3)
    return [torch.cat([result.flatten() != 0 for *_, result in step.values()]) for step in steps]


def test_each_step_sends_other_elements_k_of_them(workers):
    supports = workers(2, _support, RandomK(ratio=0.05))[0]
    assert [int(support.sum()) for support in supports] == [400, 400, 400]
    assert not torch.equal(supports[1], supports[2])
