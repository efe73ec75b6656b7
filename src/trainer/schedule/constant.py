"""The full rate from the warm-up on."""

from __future__ import annotations

from trainer.schedule.base import Schedule


class Constant(Schedule):
    """A factor of one after the warm-up."""

    def after(self, progress: float) -> float:
        return 1.0
