"""Turns of two variants on two processes."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist

from scripts.bench.harness import Bare, interleave

ROUNDS, STEPS, LEAD = 3, 2, 1


def _take_turns(mesh) -> tuple[dict[str, list[float]], list[str], float]:
    order = []

    def slow_on_rank_1() -> None:
        order.append("a")
        time.sleep(0.03 * mesh.rank)

    def quick() -> None:
        order.append("b")

    began = time.perf_counter()
    group = dist.new_group(backend="gloo")
    seconds = interleave({"a": Bare(slow_on_rank_1), "b": Bare(quick)}, ROUNDS, STEPS, group, torch.device("cpu"), LEAD)
    return seconds, order, time.perf_counter() - began


def test_variants_alternate_and_the_slowest_rank_counts(workers):
    (first, order, _), (second, _, whole_s) = workers(2, _take_turns)
    assert "".join(order) == ("a" * (LEAD + STEPS) + "b" * (LEAD + STEPS)) * ROUNDS
    # Rank 0 itself was never slow, but the table is the same everywhere.
    assert first == second
    assert list(first) == ["a", "b"]
    assert [len(turns) for turns in first.values()] == [ROUNDS, ROUNDS]
    assert all(turn >= 0.03 for turn in first["a"])
    # A step's time, not a turn's: together the turns fit into what passed.
    assert STEPS * (sum(first["a"]) + sum(first["b"])) <= whole_s
