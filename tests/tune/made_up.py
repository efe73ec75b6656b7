"""A profile that nobody measured: four layers, and links of round numbers."""

from __future__ import annotations

from trainer.replay_table import Row
from trainer.tune.profile import Point, Profile

MIB = 2**20


def line(start_s: float, mb_per_s: float, cpu_share: float = 0.0) -> list[Point]:
    """A hook whose bucket of b bytes takes start_s + b / rate."""
    walls = {size: start_s + size / (mb_per_s * MIB) for size in (MIB, 16 * MIB)}
    return [Point(size, wall, wall * cpu_share) for size, wall in walls.items()]


def profile(**curves: list[Point]) -> Profile:
    """Layers of 4 MiB of gradient; forward passes of 10 ms, backward passes of 20 ms, an update of 4 ms."""
    rows = [Row(f"layer{number}", ((1024, 1024),), 10.0, 20.0, 0) for number in range(4)]
    return Profile(
        rows=rows,
        rest_s=0.002,
        optimizer_s=0.004,
        busy=1.0,
        cores=8.0,
        copying=4000 * MIB,
        ranks=2,
        hosts=2,
        wire=(0.0005, 100 * MIB),
        curves={"allreduce": line(0.001, 100), **curves},
        divisible=["allreduce", "fp16"],
        present_s=0.15,
        spread_s=0.001,
    )
