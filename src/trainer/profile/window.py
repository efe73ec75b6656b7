"""Some steps under torch.profiler: a trace to look at, and a second opinion on what the meter measures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainer.profile.base import Profile
from trainer.profile.recording import Recording
from trainer.profile.window_recorder import WindowRecorder
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from torch import nn

    from trainer.overlap.meter import Meter
    from trainer.run import Run

log = logging.getLogger(__name__)


class Window(Profile):
    """Records `steps` steps into the run folder's `trace`, a file a rank, for ui.perfetto.dev."""

    first_step: Annotated[int, Field(ge=1)] = 11
    """the first step to record, counted from 1; buckets are cut anew after step 1, and the first steps warm up"""
    steps: Annotated[int, Field(ge=1)] = 5
    """the number of steps to record; each takes some MB of memory, and a rank stands still while it writes them"""
    ranks: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | Literal["all"] = [0]
    """the ranks that record, as a list, or all"""

    def check(self, run: Run) -> None:
        super().check(run)
        total, last = run.total_steps, self.first_step + self.steps - 1
        if self.steps > total:
            raise ConfigError(f"profile.steps: {self.steps} are more than the run's {total} steps; use fewer")
        if last > total:
            raise ConfigError(
                f"profile.first_step: steps {self.first_step} to {last} are not all among the run's {total}; use"
                f" profile.first_step={total - self.steps + 1} or an earlier one"
            )
        absent = [] if self.ranks == "all" else [rank for rank in self.ranks if rank >= run.place.world]
        if absent:
            raise ConfigError(
                f"profile.ranks: there is no rank {absent[0]}, for the run has {run.place.world}; use ranks from 0 to"
                f" {run.place.world - 1}, or profile.ranks=all"
            )

    def recordings(self, run: Run, rank: int, model: nn.Module, meter: Meter, done: int) -> list[Recording]:
        recordings = super().recordings(run, rank, model, meter, done)
        if self.ranks != "all" and rank not in self.ranks:
            return recordings
        if done >= self.first_step:
            log.warning("profile.first_step: step %d is past, %d are done; no trace is written", self.first_step, done)
            return recordings
        folder, device = run.folder / "trace", run.place.device
        return [*recordings, WindowRecorder(meter, device, folder, rank, self.first_step, self.steps)]
