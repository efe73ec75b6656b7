"""Signs: their bytes, coordinates that stay put, and parameters that travel dense instead."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.comm import scenario
from trainer.comm.onebit import BLOCK, OneBit, decode, encode, message_bytes
from trainer.mesh import Mesh


def test_a_block_decodes_to_its_mean_magnitude_with_the_signs():
    rows = torch.tensor([[2.0, -4.0] * (BLOCK // 2)])
    assert torch.equal(decode(encode(rows), torch.float32), torch.tensor([[3.0, -3.0] * (BLOCK // 2)]))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_bytes_are_those_of_the_closed_form(workers, size):
    """2 (N - 1) / N / 8 bytes an element plus scales, padded to whole blocks a rank; small tensors by a ring."""
    reported, _ = workers(size, scenario.bytes_of_a_step, OneBit())[0]
    buckets = [2, 2, 1]
    large = sum(2 * (size - 1) * message_bytes(-(-1600 * n // (size * BLOCK)) * BLOCK) for n in buckets)
    small = sum(4 * (40 * n + 1) for n in buckets)
    assert reported == pytest.approx(large + 2 * (size - 1) / size * small)
    assert message_bytes(BLOCK) / BLOCK == 1 / 8 + 4 / BLOCK


class _Partly(nn.Module):
    """A matrix of which some columns never get a gradient, and an embedding of which a step uses few rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.matrix = nn.Linear(64, 64, bias=False)
        self.words = nn.Embedding(512, 16)

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return self.matrix(x).square().mean() + self.words(words).square().mean()


def _dead_and_sparse(mesh: Mesh) -> tuple[bool, bool, bool, bool]:
    module = _Partly()
    before = module.matrix.weight.detach().clone()
    ddp, state = scenario.wrap(module, mesh, OneBit(agree_every=10))
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(mesh.rank)
    x = torch.randn(8, 64, generator=generator)
    x[:, 40:] = 0
    for _ in range(30):
        optimizer.zero_grad()
        ddp(x, torch.randint(512, (4,), generator=generator)).backward()
        optimizer.step()
    stay = torch.equal(module.matrix.weight[:, 40:], before[:, 40:])
    moved = bool((module.matrix.weight[:, :40] != before[:, :40]).all())
    dense = [bool(state.memory.get(p, "dense").any()) for p in (module.matrix.weight, module.words.weight)]
    return stay, moved, *dense


def test_coordinates_without_gradient_stay_put_and_embeddings_travel_dense(workers):
    assert workers(3, _dead_and_sparse) == [(True, True, False, True)] * 3


def _late(mesh: Mesh) -> tuple[bool, bool]:
    """A column whose gradient begins on one rank only, between two agreements."""
    module = nn.Linear(64, 64, bias=False)
    ddp, _ = scenario.wrap(module, mesh, OneBit(agree_every=4))
    seen = []
    for step in range(6):
        module.zero_grad()
        x = torch.randn(8, 64, generator=torch.Generator().manual_seed(step))
        if step < 2 or mesh.rank == 0:
            x[:, 5] = 0
        ddp(x).square().sum().backward()
        seen.append(bool(module.weight.grad[:, 5].any()))
    return not any(seen[:4]), all(seen[4:])


def test_a_coordinate_that_wakes_up_takes_part_from_the_next_agreement_on(workers):
    assert workers(2, _late) == [(True, True), (True, True)]
