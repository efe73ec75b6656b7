"""Arithmetic on sets of half-open intervals [start, end), each a list of (start, end) pairs in any order."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same set as disjoint, non-empty intervals in ascending order; touching ones are joined."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """The measure of the set: overlapping parts count once."""
    return sum(end - start for start, end in union(intervals))


def subtract(intervals: Iterable[Interval], taken: Iterable[Interval]) -> list[Interval]:
    """What of `intervals` lies in none of `taken`, as disjoint intervals in ascending order."""
    rest: list[Interval] = []
    holes = union(taken)
    at = 0  # the first hole that may reach into what is left: a profile has many thousands of them
    for start, end in union(intervals):
        while at < len(holes) and holes[at][0] < end:
            hole_start, hole_end = holes[at]
            if hole_start > start:
                rest.append((start, hole_start))
            start = max(start, hole_end)
            if hole_end > end:
                break
            at += 1
        if start < end:
            rest.append((start, end))
    return rest
