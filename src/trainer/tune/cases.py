"""Profiles that come with the trainer: steps that somebody told of, made up as far as nobody told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from trainer import replay_table
from trainer.doctor.hooks import COPY_BYTES_PER_MS
from trainer.replay_table import Row
from trainer.tune.profile import Point, Profile
from trainer.tune.program import Choice, program
from trainer.tune.scale import KNOWN, Wire, travels_s
from trainer.tune.simulate import simulate

# Bytes of the buckets that the hooks' costs are given for.
SIZES = (2**16, 2**20, 2**24, 2**26)
# Bytes per second at which an A100 copies.
COPYING = COPY_BYTES_PER_MS["cuda"] * 1000
# Halvings of the interval that the rate is sought in.
HALVINGS = 60


def eight_by_eight() -> Profile:
    """Eight hosts of eight A100s that wait for gradients in 37 % of a step, as the founding article tells.

    It names neither model nor link. GPT-2 medium's layers stand for the model; 30 us to start a message are usual for
    NCCL between hosts; an update of 10 ms is assumed; and the rate is the one at which buckets of 25 MB expose 37 %.
    """
    rows = replay_table.read(Path(str(files("trainer.model"))) / "tables" / "gpt2_medium.csv", "tune")
    slow, fast = 1e7, 1e12
    for _ in range(HALVINGS):
        rate = (slow * fast) ** 0.5
        step = simulate(program(_on(rows, Wire(30e-6, rate)), Choice("allreduce", "strict", 25.0)))
        slow, fast = (rate, fast) if step.exposed_s / step.step_s > 0.37 else (slow, rate)
    return _on(rows, Wire(30e-6, fast))


CASES: dict[str, Callable[[], Profile]] = {"eight_by_eight": eight_by_eight}


def _on(rows: Sequence[Row], wire: Wire) -> Profile:
    ranks, hosts = 64, 8
    curves = {
        name: [
            Point(
                size,
                travels_s(hook, size, ranks, wire, ranks // hosts) + hook.copies * size / COPYING,
                0.0,
                hook.sent(size, ranks),
            )
            for size in SIZES
        ]
        for name, hook in KNOWN.items()
    }
    return Profile(
        rows=list(rows),
        rest_s=0.0,
        optimizer_s=0.01,
        # A GPU computes, and copies beside that.
        busy=0.0,
        cores=1.0,
        copying=COPYING,
        ranks=ranks,
        hosts=hosts,
        wire=wire,
        curves=curves,
        divisible=["allreduce", "fp16"],
        present_s=0.0,
        spread_s=0.0,
    )
