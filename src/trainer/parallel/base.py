"""`parallel`: how many ranks lie on each axis of the mesh, and how the axes' work is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainer.spec import Component, ConfigError, Spec

if TYPE_CHECKING:
    from trainer.run import Run


class DataAxis(Spec):
    """Replicas of the model, each with its share of the batch."""

    size: Annotated[int, Field(ge=1)] | Literal[-1] = -1
    """the number of replicas; -1 takes all ranks that remain"""
    bucket_cap_mb: Annotated[float, Field(gt=0)] | None = None
    """the MiB of gradient that close a bucket, which then travels; null is DDP's own: 1, and 25 from the second on"""
    gradient_as_bucket_view: bool = True
    """whether gradients are views of the buckets, which saves a copy and its memory"""
    find_unused_parameters: bool = False
    """whether parameters may stay without a gradient in a step; costs a walk of the graph and a small reduction"""


class Parallel(Component):
    """Sizes of the mesh axes. A preset is a choice of sizes; every option of an axis is one override away."""

    data: DataAxis = DataAxis()

    def wanted(self) -> int:
        """The number of ranks these sizes need, or 0 where any number will do."""
        return 0 if self.data.size == -1 else self.data.size

    def sizes(self, world: int) -> dict[str, int]:
        """Sizes of all axes for `world` ranks. Raises ConfigError where they do not multiply to it."""
        sizes = {"pipeline": 1, "data": world if self.data.size == -1 else self.data.size, "tensor": 1}
        if sizes["data"] != world:
            raise ConfigError(
                f"parallel.data.size: {sizes['data']} replicas do not fill {world} processes; set"
                f" parallel.data.size=-1, or start {sizes['data']} processes in all"
            )
        return sizes

    def check(self, run: Run) -> None:
        self.sizes(run.place.world)
