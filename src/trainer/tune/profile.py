"""What a short run told about a step: enough to predict it under other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from trainer.replay_table import Row
from trainer.spec import ConfigError
from trainer.tune.simulate import Work


class Point(NamedTuple):
    """A bucket of `size` bytes of gradient, one of several under way, from its turn to its arrival."""

    size: float
    wall_s: float
    cpu_s: float
    sent: float = 0.0
    """bytes that a rank sends for it"""


@dataclass(frozen=True)
class Profile:
    """Times of one rank, which all have alike."""

    rows: list[Row]
    """the layers with their times, in the order of the forward pass; measured without communication"""
    rest_s: float
    """of a step: batches, the loss and all else that is neither a layer nor the optimizer"""
    optimizer_s: float
    busy: float
    """the cores that computing keeps busy"""
    cores: float
    """of a rank"""
    ranks: int
    hosts: int
    copying: float
    """bytes per second at which it copies gradients"""
    wire: tuple[float, float]
    """of the slowest link between ranks: seconds to start a message, and then bytes per second"""
    curves: dict[str, list[Point]]
    """of each hook, what buckets of some sizes cost, on the ranks' real links"""
    divisible: list[str]
    """the hooks that may carry any stretch of the gradients"""
    present_s: float
    """the step under the settings of the run"""
    spread_s: float
    """half the width of the middle half of such steps"""
    slowdown: float = 1.0
    """times as long as alone, and as the cores that it shares explain, computing takes beside what travels"""
    unexplained: float = 1.0
    """times as long as it is simulated a step takes"""

    @property
    def error(self) -> float:
        """The share of the measured step by which the simulation missed it."""
        return abs(1 / self.unexplained - 1)


_FORM = TypeAdapter(Profile)


def cost(curve: Sequence[Point], size: float) -> Work:
    """What a bucket of `size` bytes costs: on the line through the two points next to it."""
    if len(curve) == 1:
        return Work(curve[0].wall_s, curve[0].cpu_s)
    low, high = next(((a, b) for a, b in pairwise(curve) if size <= b.size), (curve[-2], curve[-1]))
    part = (size - low.size) / (high.size - low.size)
    # Below the smallest that was measured, starting costs what it cost there.
    part = max(0.0, part)
    wall, cpu = (a + part * (b - a) for a, b in ((low.wall_s, high.wall_s), (low.cpu_s, high.cpu_s)))
    return Work(max(0.0, wall), max(0.0, cpu))


def write(path: Path, profile: Profile) -> None:
    """Write `profile` as JSON that `read` reads."""
    path.write_bytes(_FORM.dump_json(profile))


def read(path: Path) -> Profile:
    """Read what `write` wrote. Raises ConfigError."""
    try:
        return _FORM.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ConfigError(
            f"tune: {path} holds no profile ({str(error).splitlines()[0]}); make one with tune=advise"
        ) from None
