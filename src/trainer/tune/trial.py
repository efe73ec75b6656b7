"""Some real steps of a run: what a search starts in fresh workers for each setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from trainer.tune.base import Session

if TYPE_CHECKING:
    import torch

    from trainer.mesh import Mesh
    from trainer.nccl.inspection import Links
    from trainer.run import Run


class Seen(NamedTuple):
    """What the ranks of a trial saw, alike on all."""

    seconds: list[float]
    """of each step after the first ones, on the slowest rank"""
    losses: list[float]
    """of whole batches, one a line of metrics"""


class Trial(Session):
    """Steps of the run, made quiet, with the settings that it has."""

    count: int
    """the number of steps after the first ones"""

    def hold(self, run: Run, mesh: Mesh, device: torch.device, look: Callable[[], Links]) -> Seen:
        # What a trial needs is no part of a launcher.
        from trainer.control import Control
        from trainer.overlap.metrics import gather
        from trainer.tune.short_run import take

        taken = take(run, self.count, mesh, device, Control(mesh.control))
        slowest = gather(taken.seconds, mesh.control).max(dim=0).values.tolist()
        return Seen(slowest, [line["train/loss"] for line in taken.lines if "train/loss" in line])
