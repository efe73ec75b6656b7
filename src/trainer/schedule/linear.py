"""A straight line from the full rate down."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.schedule.base import Schedule


class Linear(Schedule):
    """Linear decay."""

    final: Annotated[float, Field(ge=0, le=1)] = 0.0
    """the factor at the end"""

    def after(self, progress: float) -> float:
        return 1 - (1 - self.final) * progress
