"""Half a cosine from the full rate down."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from trainer.schedule.base import Schedule


class Cosine(Schedule):
    """Cosine annealing without restarts (Loshchilov and Hutter 2017)."""

    final: Annotated[float, Field(ge=0, le=1)] = 0.0
    """the factor at the end"""

    def after(self, progress: float) -> float:
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * progress)) / 2
