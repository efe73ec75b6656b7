"""Run the settings that are predicted best, and keep the fastest that learns as well as the exact run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from trainer.spec import ConfigError
from trainer.tune.advise import Advise

if TYPE_CHECKING:
    from trainer.run import Run


class Search(Advise):
    """Advice, tried: the best predicted settings are run in fresh workers, and the fastest becomes a preset."""

    candidates: Annotated[int, Field(ge=1)] = 4
    """the number of settings that are run beside the present ones, the best predicted first"""
    rounds: Annotated[int, Field(ge=1)] = 2
    """the number of times that all of them are run, one after another"""
    trial: Annotated[int, Field(ge=2)] = 6
    """the number of steps that are timed each time"""
    budget: Annotated[int, Field(ge=10)] = 40
    """the number of steps in which a setting that is not exact has to learn as the exact run does"""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """the share of the exact run's fall in loss that such a setting may lack"""

    def check(self, run: Run) -> None:
        super().check(run)
        if run.place.launcher == "other":
            raise ConfigError(
                "tune: a search starts fresh workers for each setting, and here torchrun or srun has started them; use"
                " python train.py on every node, or tune=advise"
            )

    def conduct(self, run: Run, launch: Callable[[Run], Any]) -> None:
        # What this needs knows all groups.
        from trainer.tune.searching import search

        search(run, self, launch)
