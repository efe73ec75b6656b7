"""What a typical step of the run was like: medians, which one stall or the warm-up does not move."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trainer.overlap.evidence import Evidence, Window
from trainer.overlap.metrics import MILLISECONDS


def settled(evidence: Evidence) -> Sequence[Window]:
    """The windows of the run without the first, which warms up, unless it is alone."""
    measured = [window for window in evidence.windows if any(window.ranks)]
    return measured[1:] or measured


def values(window: Window, name: str) -> list[float]:
    """A quantity of `meter.SUMS`, of all ranks that measured it."""
    found = [sums[name] for sums in window.ranks if name in sums]
    return [value for value in found if math.isfinite(value)]


def typical_ms(evidence: Evidence, name: str, worst: bool = False) -> float | None:
    """A time of `meter.SUMS` in ms a step, mean over ranks or of the worst rank; None where nothing tells it."""
    over_ranks = max if worst else statistics.fmean
    seconds = [over_ranks(found) for window in settled(evidence) if (found := values(window, name))]
    if seconds:
        return statistics.median(seconds) * 1000
    return typical_metric(evidence, MILLISECONDS[name] + ("/worst" if worst else "")) if name in MILLISECONDS else None


def typical_metric(evidence: Evidence, name: str) -> float | None:
    """The median of a metric; None where there is none."""
    found = metric(evidence, name)
    return statistics.median(found[1:] or found) if found else None


def metric(evidence: Evidence, name: str) -> list[float]:
    """All values of a metric that are numbers: a file that was tampered with or cut may hold anything."""
    return [value for _, value in evidence.series(name) if isinstance(value, (int, float)) and math.isfinite(value)]


def bucket_cap(evidence: Evidence) -> float | None:
    """The MiB that closed a bucket, as given or as worked out; None where it was left to DDP."""
    return evidence.typical("link/bucket_cap_mb") or number(evidence, "parallel.data.bucket_cap_mb")


def number(evidence: Evidence, option: str) -> float | None:
    """An option whose value is a number; None for null, for words, and where the run has no such option."""
    value = evidence.option(option)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None
