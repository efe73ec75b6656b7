"""`sweep`: what the runs of one sweep are compared by, and which sweep goes on."""

from __future__ import annotations

import re
from typing import Literal

from trainer.spec import ConfigError, Spec

# By the last part of a metric's name, in this order.
DIRECTIONS: tuple[tuple[str, Literal["max", "min"]], ...] = (
    (r"per_s$", "max"),
    (r"accuracy$|hidden_ratio$|compression_ratio$|utilisation$|cosine$", "max"),
    (r"loss$|_m?s$|_mb$|share$|bytes_sent$|norm$|slowdown$|contraction$|level$", "min"),
)


class Sweep(Spec):
    """The options of a sweep; a single run has none of them."""

    objective: str = "speed/samples_per_s"
    """the metric that ranks the runs, under its name in metrics.jsonl"""
    direction: Literal["auto", "max", "min"] = "auto"
    """which value wins: the largest, the smallest, or auto, as the metric's name says"""
    target: float | None = None
    """null, or a value of the metric; then the seconds of training until it was reached rank the runs"""
    resume: str | None = None
    """null, or the folder of a sweep of which all that is missing or unfinished is to be run"""
    prior: str | None = None
    """null, or the path of a profile.json of tune=advise; what it predicts to be fastest Optuna tries early"""

    @property
    def more_is_better(self) -> bool:
        """Whether a large value of the metric is a good one. Raises ConfigError where nobody can know."""
        if self.direction != "auto":
            return self.direction == "max"
        name = self.objective.removesuffix("/worst").rpartition("/")[2]
        for pattern, direction in DIRECTIONS:
            if re.search(pattern, name):
                return direction == "max"
        raise ConfigError(
            f"sweep.direction: whether more or less of {self.objective} is better is not known; set"
            " sweep.direction=max or sweep.direction=min"
        )

    @property
    def largest_first(self) -> bool:
        """Whether the largest of the values that rank the runs, which are seconds where there is a target, is best."""
        return self.target is None and self.more_is_better

    def refuse_alone(self) -> None:
        """Raise ConfigError for an option that a single run cannot heed."""
        if self.resume is not None:
            raise ConfigError("sweep.resume: a single run is no sweep; add -m, or use checkpoint.resume")
        if self.prior is not None:
            raise ConfigError("sweep.prior: a single run is no sweep; add -m hydra/sweeper=optuna, or leave it out")

    @property
    def title(self) -> str:
        """What the values that rank the runs are."""
        return self.objective if self.target is None else f"seconds until {self.objective} is {self.target:g}"
