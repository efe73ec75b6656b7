"""The pipeline axis: the model cut into stages, and the micro-batches that pass through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from trainer.spec import Spec

Size = Annotated[int, Field(ge=1)]
# Those that run several stages on a rank.
OF_SEVERAL_STAGES = ("gpipe", "interleaved", "auto")


class PipelineAxis(Spec):
    """Stages of the model, each on a rank of its own or several on one, and the order of their work."""

    size: Size = 1
    """the number of ranks that share the layers of one model"""
    schedule: Literal["1f1b", "gpipe", "eager_1f1b", "interleaved", "zero_bubble", "auto"] = "1f1b"
    """the order of forward and backward passes; auto takes what a simulation with measured times finds fastest"""
    microbatches: Size | Literal["auto"] = "auto"
    """the number of pieces that a rank's share of a batch (with accumulation, of each of its parts) is cut into; auto
    is the smallest that divides it and is at least twice the number of ranks"""
    stages: Size | None = None
    """the number of stages on each rank; null is two for interleaved and one for all others"""
    split: Annotated[tuple[str, ...], Field(strict=False)] | Literal["auto"] = "auto"
    """the names of the layers that begin the second stage and every later one; auto balances measured times"""

    @property
    def stages_a_rank(self) -> int:
        if self.stages is not None:
            return self.stages
        return 2 if self.schedule == "interleaved" else 1

    @property
    def total_stages(self) -> int:
        return self.size * self.stages_a_rank

    def takes(self, begins: Sequence[str]) -> bool:
        """Whether stages that begin with these layers, besides the first, are as many as this axis may have."""
        if self.split != "auto":
            return False
        stages, own = len(begins) + 1, self.total_stages
        return stages in (self.size, (self.stages or 2) * self.size) if self.schedule == "auto" else stages == own

    def microbatches_of(self, share: int) -> int:
        """The number of micro-batches that `share` samples are cut into."""
        if self.size == 1:
            return 1
        if self.microbatches != "auto":
            return self.microbatches
        # Interleaved stages pass micro-batches in rounds of as many as there are ranks.
        multiple = self.size if self.schedule == "interleaved" else 1
        fitting = [n for n in range(multiple, share + 1, multiple) if share % n == 0] or [multiple]
        return next((n for n in fitting if n >= 2 * self.size), fitting[-1])
