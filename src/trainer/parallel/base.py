"""`parallel`: how many ranks lie on each axis of the mesh, and how the axes' work is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainer.parallel.pipeline import PipelineAxis
from trainer.parallel.tensor import TensorAxis
from trainer.spec import Component, ConfigError, Spec

if TYPE_CHECKING:
    from trainer.run import Run


class DataAxis(Spec):
    """Replicas of the model, each with its share of the batch."""

    size: Annotated[int, Field(ge=1)] | Literal[-1] = -1
    """the number of replicas; -1 takes all ranks that remain"""
    bucket_cap_mb: Annotated[float, Field(gt=0)] | Literal["auto"] | None = None
    """the MiB of gradient that close a bucket, which then travels; null is DDP's own: 1, and 25 from the second on;
    auto is worked out from what the link does, measured before the first step"""
    gradient_as_bucket_view: bool = True
    """whether gradients are views of the buckets, which saves a copy and its memory"""
    find_unused_parameters: bool = False
    """whether parameters may stay without a gradient in a step; costs a walk of the graph and a small reduction"""
    shard: bool = False
    """whether parameters, gradients and optimizer state are shared out over the replicas, by fully_shard"""


class Parallel(Component):
    """Sizes of the mesh axes. A preset is a choice of sizes; every option of an axis is one override away."""

    pipeline: PipelineAxis = PipelineAxis()
    data: DataAxis = DataAxis()
    tensor: TensorAxis = TensorAxis()
    activation_checkpointing: Literal["none", "full"] | Annotated[int, Field(ge=1)] = "none"
    """which layers keep only their input and are computed again in the backward pass: none, full (all) or every n-th"""

    def ranks(self) -> tuple[int, bool]:
        """The number of ranks in the mesh, and whether that is only one replica's, of which there may be any number."""
        fills = self.data.size == -1
        return self.pipeline.size * self.tensor.size * (1 if fills else self.data.size), fills

    def sizes(self, world: int) -> dict[str, int]:
        """Sizes of all axes for `world` ranks. Raises ConfigError where they do not multiply to it."""
        pipeline, data, tensor = self.pipeline.size, self.data.size, self.tensor.size
        replica = pipeline * tensor
        if data == -1:
            if world % replica:
                where = "pipeline" if pipeline > 1 else "tensor"
                what = f"{pipeline} ranks a pipeline" if tensor == 1 else f"{tensor} ranks a layer"
                if pipeline > 1 and tensor > 1:
                    what = f"{pipeline} stages x {tensor} ranks a layer"
                raise ConfigError(
                    f"parallel.{where}.size: {what} do not divide {world} processes; use a divisor, or"
                    f" {_near(world, replica)} processes"
                )
            data = world // replica
        if replica * data != world:
            of = f" of {replica} ranks each" if replica > 1 else ""
            raise ConfigError(
                f"parallel.data.size: {data} replicas{of} do not fill {world} processes; set"
                f" parallel.data.size=-1, or start {replica * data} processes in all"
            )
        return {"pipeline": pipeline, "data": data, "tensor": tensor}

    def check(self, run: Run) -> None:
        self.sizes(run.place.world)


def _near(world: int, divisor: int) -> str:
    below, above = world // divisor * divisor, -(-world // divisor) * divisor
    return f"{below} or {above}" if below else str(above)
