"""Links are measured between the ranks that share a host, and between those that stand for one."""

from __future__ import annotations

import math

import pytest
import torch

from trainer.nccl.probe import LARGEST, LONG_S, Link, _measure, probe, ring_of

TWO_HOSTS = ["a", "a", "b", "b", "b"]


@pytest.mark.parametrize(
    ("level", "rank", "ring"),
    [
        ("inside", 0, (1, 1)),
        ("inside", 2, (3, 4)),
        ("inside", 4, (2, 3)),
        ("between", 0, (2, 2)),
        ("between", 2, (0, 0)),
        ("between", 1, None),
        ("between", 4, None),
    ],
)
def test_a_ring_goes_round_a_host_or_round_the_hosts(level, rank, ring):
    assert ring_of(level, rank, TWO_HOSTS) == ring


def test_a_ring_of_one_is_none():
    assert ring_of("inside", 0, ["a", "b"]) is None
    assert ring_of("between", 0, ["a", "a"]) is None


@pytest.mark.parametrize(("alpha", "rate"), [(1e-4, 1.2e8), (1e-5, 4e11), (1e-3, 1e6)])
def test_start_and_rate_are_told_apart(alpha, rate):
    sizes = []

    def exchange(size: int) -> float:
        sizes.append(size)
        return alpha + size / rate

    link = _measure(exchange, lambda seconds: seconds)
    assert math.isclose(link.alpha_s, alpha, rel_tol=0.1)
    assert math.isclose(link.bytes_per_s, rate, rel_tol=0.1)
    # No longer than it must: a transfer that is long enough is the last one.
    assert all(size / rate < LONG_S for size in sizes if size < max(sizes))
    assert max(sizes) <= LARGEST


def test_a_level_that_nobody_is_on_has_no_link():
    assert _measure(lambda size: 0.0, lambda seconds: seconds) is None


def both_levels(mesh):
    hosts = ["a", "a", "b", "b"]
    return probe(mesh.groups["data"], mesh.control, hosts, torch.device("cpu"))


def test_all_ranks_know_the_same_links_of_both_levels(workers):
    first, *others = workers(4, both_levels)
    assert set(first) == {"inside", "between"}
    assert all(isinstance(link, Link) and link.alpha_s > 0 and link.bytes_per_s > 0 for link in first.values())
    assert all(other == first for other in others)
