"""Two levels: the same mean, and only one L-th between nodes."""

from __future__ import annotations

import datetime
import os

import pytest
import torch

from tests.comm import scenario
from trainer.comm.hierarchy import find_hierarchy
from trainer.comm.int8 import Int8
from trainer.comm.onebit import OneBit
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError

MINUTE = datetime.timedelta(minutes=1)


def _on_nodes(mesh: Mesh, nodes: list[str]) -> None:
    os.environ["GROUP_RANK"] = nodes[mesh.rank]


def _average(mesh: Mesh, nodes: list[str], numel: int) -> tuple[torch.Tensor, float, float]:
    _on_nodes(mesh, nodes)
    hierarchy = find_hierarchy(mesh.groups["data"], MINUTE, True)
    flat = torch.arange(numel, dtype=torch.float64) * (mesh.rank + 1)
    mean = hierarchy.average(flat, lambda shard, place: hierarchy.between.average_(shard.clone(), "between"))
    return mean, hierarchy.inside.sent, hierarchy.between.sent


@pytest.mark.parametrize("numel", [12, 13, 3])
def test_without_compression_it_is_the_mean_in_fewer_bytes_between_nodes(workers, numel):
    for mean, inside, between in workers(4, _average, list("0011"), numel):
        torch.testing.assert_close(mean, torch.arange(numel, dtype=torch.float64) * 2.5)
        shard = -(-numel // 2) * 8
        assert inside == 2 * 0.5 * 2 * shard  # half of the padded gradient out, and a shard to the neighbour
        assert between <= shard  # 2 (M - 1) / M n / L


def _kind(mesh: Mesh, nodes: list[str], wanted: bool | str) -> str:
    _on_nodes(mesh, nodes)
    try:
        hierarchy = find_hierarchy(mesh.groups["data"], MINUTE, wanted)
    except ConfigError as error:
        return str(error)
    return "none" if hierarchy is None else f"{hierarchy.inside.size}x{hierarchy.between.size}"


def test_auto_wants_two_levels(workers):
    assert workers(4, _kind, list("0011"), "auto") == ["2x2"] * 4
    assert workers(2, _kind, list("01"), "auto") == ["none"] * 2
    assert workers(2, _kind, list("00"), "auto") == ["none"] * 2
    assert workers(3, _kind, list("001"), "auto") == ["none"] * 3


def test_nodes_with_different_numbers_of_ranks_are_refused(workers):
    assert (
        workers(3, _kind, list("001"), True)
        == [
            "comm.hierarchical: the nodes hold [1, 2] ranks of the data axis; start equally many on each, or set"
            " comm.hierarchical=false"
        ]
        * 3
    )


def _mass(mesh: Mesh, spec: TopK):
    _on_nodes(mesh, list("0011"))
    return scenario.mass(mesh, spec, 5, torch.float64)


@pytest.mark.parametrize(
    "spec",
    [TopK(ratio=0.05, hierarchical=True), Int8(hierarchical=True), OneBit(hierarchical=True, agree_every=2)],
    ids=["topk", "int8", "onebit"],
)
def test_no_gradient_is_lost(workers, spec):
    """A rank's residual is of its node's mean, so M times the result and the residuals make the nodes' sums."""
    ranks = workers(4, _mass, spec)
    for step in zip(*ranks, strict=True):
        for name in step[0]:
            own, before, after, result = (
                torch.stack(parts) for parts in zip(*(rank[name] for rank in step), strict=True)
            )
            nodes = own.view(2, 2, *own.shape[1:]).mean(1).sum(0)
            torch.testing.assert_close(nodes + before.sum(0), 2 * result[0] + after.sum(0), atol=1e-10, rtol=1e-12)


def _weights(mesh: Mesh, spec: TopK):
    _on_nodes(mesh, list("0011"))
    return scenario.weights_after(mesh, spec, 50)


def test_replicas_stay_bitwise_equal(workers):
    ranks = workers(4, _weights, TopK(ratio=0.05, hierarchical=True))
    assert all(torch.equal(a, b) for rank in ranks[1:] for a, b in zip(rank, ranks[0], strict=True))


def _first_compressed_step(mesh: Mesh, spec: OneBit) -> bool:
    _on_nodes(mesh, list("0011"))
    module = scenario.net()
    ddp, _ = scenario.wrap(module, mesh, spec)
    for step in range(2):
        module.zero_grad()
        scenario.backward(ddp, mesh, step)
    return all(bool(p.grad.any()) for p in module.parameters())


def test_onebit_agrees_in_the_first_step_that_compresses(workers):
    assert all(workers(4, _first_compressed_step, OneBit(hierarchical=True)))
