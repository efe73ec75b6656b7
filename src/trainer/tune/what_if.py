"""A measured step on clusters that are not there: steps and efficiency over hosts and rates."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from trainer.spec import ConfigError
from trainer.tune.advise import Allow, refuse_unpredicted
from trainer.tune.base import Tune

if TYPE_CHECKING:
    from trainer.run import Run

Rate = Annotated[str, Field(pattern=r"^\d+(\.\d+)?[mg]bit$")]
UNITS = {"m": 1e6, "g": 1e9}
# See trainer.tune.cases.
CASES = ("eight_by_eight",)


class WhatIf(Tune):
    """Predicted scaling from a profile that tune=advise has written; starts no process."""

    profile: str
    """the path of a profile.json, or the name of one that comes with the trainer: eight_by_eight"""
    hosts: list[Annotated[int, Field(ge=1)]] = [2, 4, 8, 16, 64]
    """numbers of hosts"""
    rates: list[Rate] = ["1gbit", "10gbit", "25gbit", "100gbit"]
    """rates of each host's link, as 100mbit or 25gbit"""
    ranks_per_host: Annotated[int, Field(ge=1)] = 1
    """the number of ranks on a host, which share its link"""
    allow: Allow = "exact"
    """what may change where the best setting is shown beside the run's own"""

    def check(self, run: Run) -> None:
        if self.profile not in CASES and not Path(self.profile).is_file():
            raise ConfigError(
                f"tune.profile: {self.profile!r} is no file; give the profile.json that a run with tune=advise wrote,"
                f" or {', '.join(CASES)}"
            )
        refuse_unpredicted(run)
        if not self.hosts or not self.rates:
            raise ConfigError("tune: hosts and rates are empty; name some, for example tune.hosts=[2,8]")

    def conduct(self, run: Run, launch: Callable[[Run], Any]) -> None:
        # What this needs knows all groups.
        from trainer.tune.scaling import show

        show(self, run)


def bytes_per_s(rate: str) -> float:
    """The bytes per second of `25gbit`."""
    number, unit = re.fullmatch(r"([\d.]+)([mg])bit", rate).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit] / 8
