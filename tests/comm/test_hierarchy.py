"""Two levels: the same mean, and only one L-th between nodes."""

from __future__ import annotations

import datetime
import os

import torch

from tests.comm import scenario
from trainer.comm.compressed import Compressed
from trainer.comm.hierarchy import find_hierarchy
from trainer.comm.int8 import Int8
from trainer.comm.onebit import OneBit
from trainer.comm.randomk import RandomK
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError

MINUTE = datetime.timedelta(minutes=1)


def _on_nodes(mesh: Mesh, nodes: list[str]) -> None:
    os.environ["GROUP_RANK"] = nodes[mesh.rank]


def _averages(mesh: Mesh, nodes: list[str], numels: list[int]) -> list[tuple[torch.Tensor, float, float]]:
    """Mean, bytes inside the node and bytes between nodes, for vectors of several lengths."""
    _on_nodes(mesh, nodes)
    hierarchy = find_hierarchy(mesh.groups["data"], MINUTE, True)
    inside, between, seen = hierarchy.inside, hierarchy.between, []
    for numel in numels:
        inside.sent = between.sent = 0
        flat = torch.arange(numel, dtype=torch.float64) * (mesh.rank + 1)
        mean = hierarchy.average(flat, lambda shard, place: between.average_(shard.clone(), "between"))
        seen.append((mean, inside.sent, between.sent))
    return seen


def test_without_compression_it_is_the_mean_in_fewer_bytes_between_nodes(workers):
    numels = [12, 13, 3]
    for rank in workers(4, _averages, list("0011"), numels):
        for numel, (mean, inside, between) in zip(numels, rank, strict=True):
            torch.testing.assert_close(mean, torch.arange(numel, dtype=torch.float64) * 2.5)
            shard = -(-numel // 2) * 8
            assert inside == 2 * 0.5 * 2 * shard  # half of the padded gradient out, and a shard to the neighbour
            assert between <= shard  # 2 (M - 1) / M n / L


def _kinds(mesh: Mesh, layouts: list[tuple[str, bool | str]]) -> list[str]:
    """The hierarchy of each layout, whose letters are the nodes of the ranks, as ranks a node x nodes."""
    found = []
    for nodes, wanted in layouts:
        _on_nodes(mesh, list(nodes))
        try:
            hierarchy = find_hierarchy(mesh.groups["data"], MINUTE, wanted)
            found.append("none" if hierarchy is None else f"{hierarchy.inside.size}x{hierarchy.between.size}")
        except ConfigError as error:
            found.append(str(error))
    return found


def test_auto_wants_two_levels_and_equally_many_ranks_on_each_node(workers):
    kinds = {
        ("0011", "auto"): "2x2",
        ("0123", "auto"): "none",
        ("0000", "auto"): "none",
        ("0001", "auto"): "none",
        ("0123", True): "1x4",
        ("0000", True): "4x1",
        ("0001", True): "comm.hierarchical: the nodes hold [1, 3] ranks of the data axis; start equally many on each,"
        " or set comm.hierarchical=false",
    }
    assert workers(4, _kinds, list(kinds)) == [list(kinds.values())] * 4


HOOKS = {
    "topk": TopK(ratio=0.05, hierarchical=True),
    "int8": Int8(hierarchical=True),
    "onebit": OneBit(hierarchical=True, agree_every=2),
    "randomk": RandomK(ratio=0.05, hierarchical=True),
}


def _two_levels(mesh: Mesh, specs: dict[str, Compressed]) -> dict[str, tuple[list, list[torch.Tensor]]]:
    """What `mass` sees of every hook, and weights after some steps."""
    _on_nodes(mesh, list("0011"))
    return {
        name: (scenario.mass(mesh, spec, 5), scenario.weights_after(mesh, spec, 50)) for name, spec in specs.items()
    }


def test_no_gradient_is_lost_and_replicas_stay_bitwise_equal(workers):
    """A rank's residual is of its node's mean, so M times the result and the residuals make the nodes' sums."""
    ranks = workers(4, _two_levels, HOOKS)
    for hook in HOOKS:
        masses, weights = zip(*(rank[hook] for rank in ranks), strict=True)
        for step in zip(*masses, strict=True):
            for name in step[0]:
                own, before, after, result = (torch.stack(p) for p in zip(*(rank[name] for rank in step), strict=True))
                nodes = own.view(2, 2, *own.shape[1:]).mean(1).sum(0)
                torch.testing.assert_close(nodes + before.sum(0), 2 * result[0] + after.sum(0), atol=1e-10, rtol=1e-12)
                # Also in the first step that compresses, which is not a run's first.
                assert result[0].any(), f"{hook}, {name}"
        assert all(torch.equal(a, b) for rank in weights[1:] for a, b in zip(rank, weights[0], strict=True)), hook


def _flat_and_two_levels(mesh: Mesh) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    _on_nodes(mesh, list("0011"))
    flat, deep = TopK(ratio=1.0), TopK(ratio=1.0, hierarchical=True)
    return scenario.weights_after(mesh, flat, 10), scenario.weights_after(mesh, deep, 10)


def test_where_everything_travels_two_levels_lead_to_the_weights_of_one(workers):
    for flat, deep in workers(4, _flat_and_two_levels):
        for one, two in zip(flat, deep, strict=True):
            # The same sums in another order.
            torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-5)
