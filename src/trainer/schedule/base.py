"""`schedule`: the factor on the learning rate at each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from trainer.spec import Component, ConfigError

if TYPE_CHECKING:
    from trainer.run import Run


class Schedule(Component):
    """A pure function of the step, so that a resumed run needs no state to go on with the same rate."""

    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """the number of steps over which the rate rises from nearly zero to the full rate"""

    def factor(self, step: int, total: int) -> float:
        """The factor for `step` (from 0) of `total`: a linear rise, then what `after` says of the rest."""
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        return self.after((step - self.warmup_steps) / max(1, total - self.warmup_steps))

    def after(self, progress: float) -> float:
        """The factor after the warm-up, at `progress` in [0, 1) of what remains."""
        raise NotImplementedError

    def check(self, run: Run) -> None:
        if run.steps is None and run.epochs is None:
            return  # refused by the run itself
        if self.warmup_steps >= run.total_steps > 1:
            length = f"steps={run.steps}" if run.steps else f"epochs={run.epochs}, which are {run.total_steps} steps"
            raise ConfigError(
                f"schedule.warmup_steps: {self.warmup_steps} steps of warm-up leave nothing of {length};"
                " use fewer, for example a tenth of the steps"
            )
