"""The metrics of a run over its steps, thinned to what a chart can show."""

from __future__ import annotations

import math
import statistics
from typing import Any, NamedTuple

from trainer.overlap.evidence import Evidence

# More points than a chart has pixels to tell apart only make the page large.
POINTS = 240


class History(NamedTuple):
    """A row for each of at most POINTS stretches of steps: `step`, the last one, and the mean of every metric in it."""

    rows: list[dict[str, float]]
    lines: int
    """steps that have metrics, each of which a row stands for if there are no more than POINTS"""

    def of(self, *names: str) -> list[dict[str, float]]:
        """Rows that have one of these metrics, with nothing but them."""
        return [
            {name: row[name] for name in ("step", *names) if name in row}
            for row in self.rows
            if any(name in row for name in names)
        ]

    def thinned(self) -> str:
        """A sentence on what was left out; empty if nothing."""
        if self.lines <= len(self.rows):
            return ""
        return (
            f"{self.lines:,} logged steps are drawn as {len(self.rows)} points, "
            f"each the mean of up to {math.ceil(self.lines / len(self.rows))}; metrics.jsonl has them all."
        )


def number(value: Any) -> float | None:
    """`value` if it is one that can be drawn: files hold anything, and NaN where a loss diverged."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def values(evidence: Evidence, name: str) -> list[float]:
    found = (number(value) for _, value in evidence.series(name))
    return [value for value in found if value is not None]


def typical(evidence: Evidence, name: str) -> float | None:
    """The median, without the first value, which warms up."""
    found = values(evidence, name)
    return statistics.median(found[1:] or found) if found else None


def result(evidence: Evidence, name: str) -> float | None:
    """A result as it ended, anything else as it typically was; None where there is none."""
    if not name.startswith(("train/", "eval/")):
        return typical(evidence, name)
    found = values(evidence, name)
    return found[-1] if found else None


def history(evidence: Evidence, points: int = POINTS) -> History:
    steps = sorted({line.step for line in evidence.metrics})
    place = {step: at * min(points, len(steps)) // len(steps) for at, step in enumerate(steps)}
    stretches: dict[int, dict[str, list[float]]] = {}
    ends: dict[int, int] = {}
    for line in evidence.metrics:
        at = place[line.step]
        ends[at] = max(line.step, ends.get(at, 0))
        for name, value in line.values.items():
            if (good := number(value)) is not None:
                stretches.setdefault(at, {}).setdefault(name, []).append(good)
    rows = [
        {"step": ends[at], **{name: statistics.fmean(found) for name, found in stretches[at].items()}}
        for at in sorted(stretches)
    ]
    return History(rows, len(steps))
