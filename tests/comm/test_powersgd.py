"""Low rank: exact where the gradient has no more, bounded where it has, and its bytes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.comm import scenario
from trainer.comm.powersgd import PowerSGD
from trainer.mesh import Mesh
from trainer.spec import ConfigError


def _low_rank(mesh: Mesh, spec: PowerSGD) -> float:
    """A batch of two samples that all ranks share makes a gradient of rank two."""
    module = nn.Linear(64, 48, bias=False, dtype=torch.float64)
    ddp, _ = scenario.wrap(module, mesh, spec)
    x = torch.randn(2, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scale = mesh.rank + 1.0
    expected = (mesh.sizes["data"] + 1) / 2 * torch.ones(48, 1, dtype=torch.float64) @ x.sum(0, keepdim=True)
    ddp(x).sum().mul(scale).backward()
    return (module.weight.grad - expected).abs().max().item()


def test_a_gradient_of_no_higher_rank_is_exact(workers):
    assert max(workers(3, _low_rank, PowerSGD(rank=2))) < 1e-12


def _residual_norms(mesh: Mesh, steps: int) -> list[float]:
    """Gradients that differ between ranks in the same way for ever, around a mean that is alike."""
    module = nn.Linear(32, 32, bias=False)
    ddp, state = scenario.wrap(module, mesh, PowerSGD(rank=1, min_numel=1))
    generator = torch.Generator().manual_seed(mesh.rank)
    bias = torch.randn(32, 32, generator=generator)
    norms = []
    for _ in range(steps):
        module.zero_grad()
        noise = torch.randn(32, 32, generator=generator)
        ddp(torch.eye(32)).mul((bias + noise).T).sum().backward()
        norms.append(state.memory.get(module.weight, "residual").norm().item())
    return norms


def test_the_residual_stays_bounded_over_2000_steps_that_differ_between_ranks(workers):
    for norms in workers(2, _residual_norms, 2000):
        early, late = max(norms[500:1000]), max(norms[1500:])
        # With the averaged factors subtracted it would have doubled: it grows by the ranks' difference in every step.
        assert late < 1.3 * early


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "comm.rank=0",
            "comm.rank: 0 is not allowed: input should be greater than or equal to 1; rank is the rank of the"
            " approximation",
        ),
        (
            "comm.hierarchical=true",
            "comm.hierarchical: powersgd needs whole matrices, and a node's ranks would hold slices of them; set"
            " comm.hierarchical=false",
        ),
    ],
)
def test_what_cannot_work_is_refused(make_run, override, line):
    with pytest.raises(ConfigError) as caught:
        make_run("comm=powersgd", override)
    assert str(caught.value) == line
