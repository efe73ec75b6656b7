"""Statistics of interleaved rounds: medians, quartiles, and ratios taken round by round."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

# The interquartile range of a ratio, as a part of it, above which the ratio says nothing.
LIMIT = 0.15
# The fewest rounds that have a spread.
FEWEST = 3


class Spread(NamedTuple):
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float
    count: int = FEWEST

    @property
    def half(self) -> float:
        """Half the interquartile range."""
        return (self.high - self.low) / 2


def spread(values: Sequence[float]) -> Spread:
    """The median and quartiles of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def ratio(values: Sequence[float], reference: Sequence[float]) -> Spread:
    """`values` over `reference`, round by round: what slows a whole round down hits both and cancels."""
    return spread([value / other for value, other in zip(values, reference, strict=True)])


def is_clear(ratio: Spread) -> bool:
    """Whether the ratio means anything."""
    return ratio.count >= FEWEST and ratio.high - ratio.low <= LIMIT * ratio.median


def spell_ratio(ratio: Spread) -> str:
    """The ratio with half its interquartile range, or a refusal to give one."""
    text = f"{ratio.median:.3f} ± {ratio.half:.3f}"
    return text if is_clear(ratio) else f"unclear ({text})"


def spell_ms(seconds: Spread) -> str:
    """A time with half its interquartile range."""
    return f"{seconds.median * 1000:.1f} ± {seconds.half * 1000:.1f}"
