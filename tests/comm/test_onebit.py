"""Signs: their bytes, coordinates that stay put, and parameters that travel dense instead."""

from __future__ import annotations

import torch
from torch import nn

from tests.comm import scenario
from trainer.comm.onebit import OneBit, Signs
from trainer.mesh import Mesh


def test_a_block_decodes_to_its_mean_magnitude_with_the_signs():
    blocks, flat = Signs(), torch.tensor([2.0, -4.0] * 512)
    message = blocks.encode(flat, torch.empty(blocks.message_bytes(1024), dtype=torch.uint8))
    assert torch.equal(blocks.decode(message, torch.empty(1024)), torch.tensor([3.0, -3.0] * 512))
    assert torch.equal(flat, torch.tensor([-1.0, -1.0] * 512))


def test_a_zero_has_the_sign_that_it_has():
    blocks, flat = Signs(), torch.tensor([0.0, -0.0, 3.0, -3.0] * 256)
    message = blocks.encode(flat, torch.empty(blocks.message_bytes(1024), dtype=torch.uint8))
    assert torch.equal(blocks.decode(message, torch.empty(1024)), torch.tensor([1.5, -1.5, 1.5, -1.5] * 256))
    assert torch.equal(flat, torch.tensor([-1.5, 1.5, 1.5, -1.5] * 256))


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
