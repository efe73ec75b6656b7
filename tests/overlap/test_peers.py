"""Waiting for peers, told apart from moving bytes by when each rank came to a bucket."""

from __future__ import annotations

import torch

from trainer.overlap import peers
from trainer.overlap.meter import PastBucket, PastStep

ONE_CLOCK = [7, 7]


def times(*ranks: list[tuple[float, float]]) -> torch.Tensor:
    return torch.tensor(ranks, dtype=torch.float64)


def waits(*ranks: list[tuple[float, float]]) -> list[list[float]]:
    return peers.waits(times(*ranks), torch.zeros(len(ranks), dtype=torch.float64)).tolist()


def test_the_rank_that_comes_first_waits_until_the_last_has_come():
    assert waits([(0, 10)], [(4, 10)]) == [[4], [0]]


def test_ranks_that_come_together_wait_for_nobody():
    assert waits([(0, 10), (10, 12)], [(0, 10), (10, 12)]) == [[0, 0], [0, 0]]


def test_a_bucket_behind_another_is_not_waiting_for_peers():
    # Both ranks submit the second bucket early; it travels when the first has arrived on both.
    assert waits([(0, 10), (1, 20)], [(0, 10), (3, 20)]) == [[0, 0], [0, 0]]


def test_a_wait_ends_with_the_bucket_at_the_latest():
    assert waits([(0, 3)], [(5, 6)]) == [[3], [0]]


def test_three_ranks_wait_for_the_slowest():
    assert waits([(0, 9)], [(2, 9)], [(6, 9)]) == [[6], [4], [0]]


def test_clocks_of_other_machines_are_told_by_the_ends_of_what_all_leave_together():
    there = times([(0, 10), (10, 20), (20, 31)], [(1004, 1010), (1010, 1020), (1020, 1030)])
    ahead = peers.offsets(there, [7, 8])
    assert ahead.tolist() == [0, 1000]
    assert peers.waits(there, ahead).tolist() == [[4, 0, 0], [0, 0, 0]]


def test_one_machine_has_one_clock_whatever_the_ends_say():
    assert peers.offsets(times([(0, 10)], [(0, 13)]), ONE_CLOCK).tolist() == [0, 0]


def test_a_window_without_buckets_tells_nothing():
    none = torch.zeros(2, 0, 2, dtype=torch.float64)
    assert peers.offsets(none, [7, 8]).tolist() == [0, 0]
    assert peers.waits(none, torch.zeros(2)).shape == (2, 0)


def test_buckets_are_read_from_the_steps_on_the_clock_of_the_host():
    window = [PastStep(n, moment, {}, [], [PastBucket(n, 0.5, 0.75)]) for n, moment in enumerate((10.0, 20.0))]
    assert peers.buckets(window).tolist() == [[0, 10.5, 10.75], [1, 20.5, 20.75]]


def test_ranks_are_compared_by_the_buckets_that_all_have_measured():
    one, other = torch.tensor([[4, 0, 1], [5, 1, 2], [6, 2, 3.0]]), torch.tensor([[5, 7, 8], [6, 8, 9], [7, 9, 10.0]])
    assert peers.common([one, other]).tolist() == [[[1, 2], [2, 3]], [[7, 8], [8, 9]]]
    assert peers.common([one, other[:0]]).shape == (2, 0, 2)


def test_the_clock_has_one_name_that_a_float_can_carry():
    assert peers.clock_name() == peers.clock_name() == int(float(peers.clock_name()))
