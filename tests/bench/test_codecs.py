"""What the codec table times is the real compression of a bucket."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from scripts.bench.codecs import Echo, work
from scripts.bench.tables.codec import HOOKS
from scripts.bench.task import compose_run

SHAPES = [(64, 32, 3, 3), (64, 64)]


@pytest.fixture(scope="module")
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_of_the_table_encodes_and_decodes(alone, name):
    reduce = work(compose_run(["model=mlp", "launch.processes=2", *HOOKS[name]]).comm, SHAPES, alone)
    for _ in range(3):
        reduce()


def test_the_echo_is_a_wire_of_two_that_agree():
    wire, flat = Echo(), torch.randn(6)
    assert torch.equal(wire.average_(flat.clone(), ""), flat)
    assert torch.equal(wire.gather(flat, ""), torch.stack([flat, flat]))
    assert torch.equal(wire.swap(flat.view(2, 3), ""), flat.view(2, 3))
