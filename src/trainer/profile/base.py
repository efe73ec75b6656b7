"""`profile`: what a run records about itself beyond its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from trainer.profile.recording import Recording
from trainer.profile.replay_recorder import ReplayRecorder
from trainer.spec import Component

if TYPE_CHECKING:
    from torch import nn

    from trainer.overlap.meter import Meter
    from trainer.run import Run


class Profile(Component):
    """Recordings of a few steps, off unless asked for."""

    ablation_every: Annotated[int, Field(ge=1)] | None = None
    """the number of steps after which one is repeated without communication, to measure what that costs; null never"""
    record_replay: bool = False
    """whether to write replay.csv, the layers' times and sizes, which model=replay rehearses anywhere"""

    def recordings(self, run: Run, rank: int, model: nn.Module, meter: Meter, done: int) -> list[Recording]:
        """What records on `rank` in a run of which `done` steps are done already."""
        if not self.record_replay or rank != 0:
            return []
        samples = run.share // run.batch.microbatches
        title = f"{type(run.model).__name__} on {run.place.device}, {samples} samples at once, {run.precision}"
        return [ReplayRecorder(model, meter.clock, run.folder / "replay.csv", title)]
