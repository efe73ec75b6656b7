"""What records some of a run's steps: the loop tells it of every one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.overlap.meter import PastStep


class Recording:
    """On one rank. None of this may wait for another rank or fail: the training goes on without a recording."""

    def begin_step(self, step: int) -> None:
        """Step `step`, counted from 1, is about to begin."""

    def measured(self, steps: Sequence[PastStep]) -> None:
        """The meter was read after a step has ended; these steps' times have become known, often none or that one."""

    def close(self) -> None:
        """No step will come."""
