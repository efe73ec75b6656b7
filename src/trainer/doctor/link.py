"""What the link costs, told from the run's own transfers: starting one, and each of its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trainer.doctor.recorded import Step, travel_ms

# Sizes that differ by less say nothing about what starting costs: the spread of the times is of that order.
SPREAD = 2.0
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
    points = [point for step in steps for point in _points(step)]
    if not points:
        return None
    per_start = [sent / starts for starts, sent, _ in points]
    if max(per_start) >= SPREAD * min(per_start):
        solved = _least_squares(points)
        if solved is not None:
            return Link(*solved, separated=True)
    start = ASSUMED_START_MS.get(device, ASSUMED_START_MS["cpu"])
    sent, taken = sum(sent for _, sent, _ in points), sum(taken for *_, taken in points)
    starting = start * sum(starts for starts, *_ in points)
    # Where the assumption explains more than half of what was measured, it is the assumption that is wrong.
    starting = min(starting, taken / 2)
    return Link(starting / sum(starts for starts, *_ in points), (taken - starting) / sent, separated=False)


def _points(step: Step) -> list[tuple[float, float, float]]:
    """(transfers, bytes, ms): those that were under way at once count together."""
    points = []
    starts = sent = 0.0
    for transfer, taken in zip(step.exchanges, travel_ms(step.exchanges), strict=True):
        starts, sent = starts + 1, sent + transfer.sent
        if taken > 0 and sent > 0:
            points.append((starts, sent, taken))
            starts = sent = 0.0
    return points


def _least_squares(points: list[tuple[float, float, float]]) -> tuple[float, float] | None:
    """start and ms a byte that minimise the squared relative errors; None where no positive rate comes out."""
    rows = [(starts / taken, sent / taken) for starts, sent, taken in points]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(row[0] for row in rows), sum(row[1] for row in rows)
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        return None
    start, per_byte = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if start < 0:
        start, per_byte = 0.0, b / bb
    return (start, per_byte) if per_byte > 0 else None
