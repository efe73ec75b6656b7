"""Turns of two variants on two processes."""

from __future__ import annotations

import itertools
import time

import torch
import torch.distributed as dist

from scripts.bench.harness import Bare, interleave

ROUNDS, STEPS, LEAD = 3, 2, 1
LONG_S = 0.3


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


def _drift(mesh) -> dict[str, list[float]]:
    """Rank 0 takes long for the step that does not count, and rank 1 for the one that does: both end together."""
    numbers = itertools.count()

    def step() -> None:
        time.sleep(LONG_S if next(numbers) % 2 == mesh.rank else 0)

    group = dist.new_group(backend="gloo")
    return interleave({"drifting": Bare(step)}, ROUNDS, 1, group, torch.device("cpu"), lead=1)


def test_ranks_that_drift_apart_and_back_are_not_slow(workers):
    for seconds in workers(2, _drift):
        assert all(turn < LONG_S / 2 for turn in seconds["drifting"])


def _tired(mesh) -> tuple[dict[str, list[float]], int]:
    """Every third step of a turn, which does not count, takes long."""
    numbers = itertools.count(1)

    def step() -> None:
        time.sleep(LONG_S if next(numbers) % 3 == 0 else 0)

    group = dist.new_group(backend="gloo")
    seconds = interleave({"tired": Bare(step)}, ROUNDS, 1, group, torch.device("cpu"), lead=1, trail=1)
    return seconds, next(numbers) - 1


def test_steps_that_trail_a_turn_are_done_and_do_not_count(workers):
    for seconds, steps in workers(2, _tired):
        assert steps == 3 * ROUNDS
        assert all(turn < LONG_S / 2 for turn in seconds["tired"])
