"""`tune`: whether a run trains, or finds out under which settings it would train fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer.spec import Component

if TYPE_CHECKING:
    from trainer.run import Run


class Tune(Component):
    """Train."""

    def conduct(self, run: Run, launch: Callable[[Run], None]) -> None:
        """Do what was asked for, in the launcher; `launch` starts the workers."""
        launch(run)
