"""Interval arithmetic, on vectors worked out by hand and against counting whole numbers."""

from __future__ import annotations

import random

import pytest

from trainer.overlap.interval import Interval, length, subtract, union


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], []),
        ([(3, 3), (5, 4)], []),
        ([(4, 6), (0, 2)], [(0, 2), (4, 6)]),
        ([(0, 4), (2, 6)], [(0, 6)]),
        ([(0, 9), (2, 3), (4, 5)], [(0, 9)]),
        ([(0, 2), (2, 4)], [(0, 4)]),
        ([(0, 1), (0, 1)], [(0, 1)]),
    ],
)
def test_a_union_is_disjoint_and_in_order(intervals: list[Interval], expected: list[Interval]):
    assert union(intervals) == expected


@pytest.mark.parametrize(
    ("comm", "compute", "total", "exposed"),
    [
        pytest.param([(0, 10)], [(5, 15)], 10, 5, id="half"),
        pytest.param([(0, 4), (2, 6)], [(1, 3)], 6, 4, id="a third of overlapping buckets"),
        pytest.param([(2, 4)], [(0, 10)], 2, 0, id="inside"),
        pytest.param([(0, 10)], [(2, 3), (4, 6)], 10, 7, id="around"),
        pytest.param([(0, 5)], [(5, 9)], 5, 5, id="touching"),
        pytest.param([(0, 5)], [], 5, 5, id="no computation"),
        pytest.param([], [(0, 5)], 0, 0, id="no communication"),
        pytest.param([(0, 1), (2, 3)], [(0, 3)], 2, 0, id="one hole for two"),
    ],
)
def test_exposed_communication_is_what_no_computation_covers(comm, compute, total, exposed):
    assert length(comm) == total
    assert length(subtract(comm, compute)) == exposed


def test_what_is_left_is_disjoint_and_in_order():
    assert subtract([(6, 9), (0, 5), (4, 7)], [(2, 3), (8, 8), (5, 6)]) == [(0, 2), (3, 5), (6, 9)]


def test_random_sets_agree_with_counting_whole_numbers():
    draw = random.Random(0)

    def some() -> list[Interval]:
        return [(draw.randrange(20), draw.randrange(20)) for _ in range(draw.randrange(6))]

    def members(intervals: list[Interval]) -> set[int]:
        return {number for start, end in intervals for number in range(int(start), int(end))}

    for _ in range(500):
        mine, others = some(), some()
        assert members(union(mine)) == members(mine)
        assert length(mine) == len(members(mine))
        rest = subtract(mine, others)
        assert members(rest) == members(mine) - members(others)
        assert length(rest) == len(members(rest))
        assert rest == sorted(rest)
        assert all(start < end for start, end in rest)
        assert all(before < after for (_, before), (after, _) in zip(union(mine), union(mine)[1:], strict=False))
