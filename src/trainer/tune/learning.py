"""Whether a setting that is not exact learns as the exact run does, over a budget of steps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def fall(losses: Sequence[float]) -> float:
    """By how much the loss fell: from the first batch to the mean of the last half, which evens batches out."""
    return losses[0] - statistics.fmean(losses[len(losses) // 2 :])


def share_learned(losses: Sequence[float], exact: Sequence[float]) -> float | None:
    """The share of the exact run's fall that another run on the same batches had; None where the exact one had none."""
    whole = fall(exact)
    return fall(losses) / whole if whole > 0 else None
