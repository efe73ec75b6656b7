"""Who draws which random numbers on the tensor axis."""

from __future__ import annotations

import torch
from torch import nn

from trainer.mesh import Mesh
from trainer.model.gpt import GPT
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.sample import Sample
from trainer.tensor.axis import Axis
from trainer.tensor.check import plan_of
from trainer.tensor.share import share_out
from trainer.tensor.streams import Streams


def test_within_a_region_ranks_differ_and_after_it_they_go_on_alike():
    module, draws = nn.Identity(), []
    for rank in (0, 1):
        torch.manual_seed(3)
        streams = Streams(rank)
        before = torch.rand(()).item()
        streams.enter(module)
        within = torch.rand(()).item()
        streams.leave(module, None, None)
        draws.append((before, within, torch.rand(()).item()))
    assert draws[0][0] == draws[1][0]
    assert draws[0][1] != draws[1][1]
    assert draws[0][2] == draws[1][2]


def test_a_region_that_is_computed_once_more_draws_the_same():
    module, streams = nn.Identity(), Streams(1)
    state, draws = torch.get_rng_state(), []
    for _ in range(2):
        torch.set_rng_state(state)
        streams.enter(module)
        draws.append(torch.rand(3))
        streams.leave(module, None, None)
    assert torch.equal(*draws)


def test_evaluation_draws_nothing():
    module = nn.Identity().eval()
    state = torch.get_rng_state()
    Streams(1).enter(module)
    assert torch.equal(state, torch.get_rng_state())


def _masks(mesh: Mesh) -> tuple[list[bool], list[bool]]:
    """What this rank of a tensor axis drops of an activation that all have, and of one of which it has a part."""
    tensor = Mesh.join(
        {"pipeline": 1, "data": 2, "tensor": 2}, torch.device("cpu"), torch.distributed.default_pg_timeout
    )
    torch.manual_seed(0)
    model = GPT(depth=1, width=16, heads=2, dropout=0.5).build(Sample("tokens", (6,), 11))
    axis = Axis(tensor.groups["tensor"], Meter(HostClock()), sequence=False, overlap=True)
    share_out(model, plan_of(model), axis, nn.functional.cross_entropy, own_loss=False)
    torch.manual_seed(10 + tensor.ranks["data"])
    whole, part = [], []
    block = model.layers["0"]
    block.dropout.register_forward_hook(lambda _, inputs, output: whole.append((output == 0).flatten().tolist()))
    # A dropout inside the region stands for that of the attention's own weights.
    inner = nn.Dropout(0.5)
    block.attention.value.register_forward_hook(lambda *_: part.append((inner(torch.ones(64)) == 0).tolist()))
    model(torch.zeros(2, 6, dtype=torch.int64))
    return whole[0], part[0]


def test_masks_are_alike_where_activations_are_and_differ_elsewhere(workers):
    (whole0, part0), (whole1, part1), (whole2, part2), _ = workers(4, _masks)
    assert whole0 == whole1, "tensor ranks 0 and 1 of replica 0 have the same activations"
    assert part0 != part1, "and each its own heads"
    assert whole0 != whole2, "replica 1 draws its own masks"
    assert part0 != part2
