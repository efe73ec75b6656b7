"""What the link costs, told from the run's own transfers: starting one, and each of its bytes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from trainer.doctor.recorded import Step, travel_ms

# Sizes that differ by less say nothing about what starting costs: times vary by as much.
SPREAD = 4.0
# A start is believed if it is this many times its standard error.
SURE = 2.0
# Gloo's threads carry two collectives at once; NCCL's stream carries one after another, and so does a courier.
GLOO_AT_ONCE = 2
# Where sizes are too alike, starting is assumed to cost this: a collective of Gloo over sockets, and one of NCCL.
ASSUMED_START_MS = {"cpu": 0.5, "cuda": 0.05}


class Link(NamedTuple):
    """A transfer of b bytes takes start_ms + b · ms_per_byte."""

    start_ms: float
    ms_per_byte: float
    separated: bool
    """whether both are measured; if not, the start is assumed"""

    @property
    def gbit(self) -> float:
        """Gbit/s that one rank sends, once a transfer has started."""
        return 8e-6 / self.ms_per_byte

    def ms(self, sent: float, starts: float = 1) -> float:
        """The time of `sent` bytes in as many transfers as `starts`."""
        return starts * self.start_ms + sent * self.ms_per_byte


def fit(steps: Iterable[Step], device: str) -> Link | None:
    """The link by least squares over all transfers of `steps`; None where nothing was sent.

    Errors count relative to the time, or the small transfers, which tell what starting costs, would not count at all.
    """
    by_step = [points for step in steps if (points := _points(step, device))]
    points = [point for points in by_step for point in points]
    if not points:
        return None
    sizes = [sent for sent, _ in points]
    if max(sizes) >= SPREAD * min(sizes):
        solved = _least_squares(points)
        if solved is not None:
            return Link(*solved, separated=True)
    start = ASSUMED_START_MS.get(device, ASSUMED_START_MS["cpu"])
    # Where the assumption explains more than half of what was measured, it is the assumption that is wrong.
    start = min(start, statistics.median(taken for _, taken in points) / 2)
    rates = [
        sum(max(taken / 2, taken - start) for _, taken in points) / sum(sent for sent, _ in points)
        for points in by_step
    ]
    return Link(start, statistics.median(rates), separated=False)


def _points(step: Step, device: str) -> list[tuple[float, float]]:
    """(bytes, ms) of the transfers of a step."""
    at_once = GLOO_AT_ONCE if step.exchanges is step.buckets and device == "cpu" else 1
    transfers = zip(step.exchanges, travel_ms(step.exchanges, at_once), strict=True)
    return [(transfer.sent, taken) for transfer, taken in transfers if transfer.sent > 0 and taken > 0]


def _least_squares(points: list[tuple[float, float]]) -> tuple[float, float] | None:
    """start and ms a byte that minimise the squared relative errors; None where they are not to be told apart."""
    rows = [(1 / taken, sent / taken) for sent, taken in points]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(row[0] for row in rows), sum(row[1] for row in rows)
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb or len(rows) < 3:
        return None
    start, per_byte = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    errors = sum((1 - start * row[0] - per_byte * row[1]) ** 2 for row in rows)
    uncertain = math.sqrt(errors / (len(rows) - 2) * bb / determinant)
    return (start, per_byte) if per_byte > 0 and start >= max(0.0, SURE * uncertain) else None
