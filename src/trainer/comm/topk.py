"""Only the largest elements travel; the others wait until they are large."""

import math
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from trainer.comm.compressed import Codec, Compressed
from trainer.comm.easing import larger_shares
from trainer.comm.layout import Part
from trainer.comm.select import largest
from trainer.comm.wire import Wire
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run

# An index takes two bytes within a chunk of this many elements; a message starts with the number of indices in each.
CHUNK = 2**16
# What is larger is sent as this, and the rest of it waits.
FP16_MOST = torch.finfo(torch.float16).max
# Where the ratio's descent begins: Deep Gradient Compression's first epoch sends a quarter.
FIRST_RATIO = 0.25


class TopK(Compressed):
    """Top-k sparsification with error feedback (Lin et al. 2018; Stich et al. 2018)."""

    ratio: Annotated[float, Field(gt=0, le=1)] = 0.01
    """the share of elements that travel"""
    ramp_steps: Annotated[int, Field(ge=0)] = 0
    """the number of steps after the warm-up in which the ratio falls from a quarter to `ratio`, geometrically"""
    values: Literal["fp32", "fp16"] = "fp32"
    """the type of the values; what fp16 rounds off waits like the rest"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """the momentum that is applied before selection (DGC's momentum correction), instead of the optimizer's"""

    def check(self, run: "Run") -> None:
        options = getattr(run.optimizer, "options", {})
        theirs = getattr(run.optimizer, "momentum", 0.0) or options.get("momentum", 0.0)
        if self.momentum and theirs:
            raise ConfigError(
                f"comm.momentum: {self.momentum} here and {theirs} in the optimizer would apply momentum twice; set"
                " optimizer.momentum=0"
            )
        if self.momentum and not self.error_feedback:
            raise ConfigError("comm.momentum: its correction lives in the residual; set comm.error_feedback=true")

    def words(self) -> str:
        return f"ratio {self.ratio:g}"

    def degrees(self) -> list[tuple[str, Codec]]:
        return [*larger_shares(self, self.ratio), *super().degrees()]

    def codec(self) -> Codec:
        return _TopK(self)


class _TopK:
    def __init__(self, spec: TopK) -> None:
        self.spec = spec

    def accumulate(self, pending: Tensor, gradient: Tensor, part: Part) -> None:
        if self.spec.momentum:
            gradient = part.flat("momentum", gradient).mul_(self.spec.momentum).add_(gradient)
        pending.add_(gradient)

    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
        """1. Select. 2. All-gather chunk counts, values and indices in one message. 3. Add them up rank by rank."""
        count = max(1, math.ceil(self.ratio(step) * pending.numel()))
        indices, values = largest(pending, count, start=step)
        dtype = torch.float16 if self.spec.values == "fp16" else torch.float32
        if dtype == torch.float16:
            values = values.clamp(-FP16_MOST, FP16_MOST)
        values = values.to(dtype)
        messages = wire.gather(pack(indices, values, pending.numel()), "all-gather of the largest elements")

        pending.index_add_(0, indices, values.to(pending.dtype), alpha=-1)
        if self.spec.momentum:
            # Momentum factor masking: what was just sent shall not push again with an old direction.
            part.flat("momentum", pending).index_fill_(0, indices, 0)
        mean.zero_()
        for message in messages:
            mean.index_add_(0, *unpack(message, count, pending.numel(), dtype, pending.dtype), alpha=1 / wire.size)

    def ratio(self, step: int) -> float:
        """The share of elements that travels in `step`."""
        done = step - self.spec.dense_steps
        if done >= self.spec.ramp_steps:
            return self.spec.ratio
        first = max(FIRST_RATIO, self.spec.ratio)
        return first * (self.spec.ratio / first) ** (done / self.spec.ramp_steps)


def message_bytes(count: int, numel: int, value_bytes: int) -> int:
    """The bytes of one rank's message: 4 a chunk, then value and index of each of `count` elements, filled up to 4."""
    return -(-(4 * -(-numel // CHUNK) + count * (value_bytes + 2)) // 4) * 4


def pack(indices: Tensor, values: Tensor, numel: int) -> Tensor:
    """A uint8 message of ascending `indices` below `numel` and their `values`; a meaningless index has value 0."""
    chunks, count, size = -(-numel // CHUNK), len(indices), values.dtype.itemsize
    message = torch.zeros(message_bytes(count, numel, size), dtype=torch.uint8, device=values.device)
    head, tail = 4 * chunks, 4 * chunks + count * size
    # Indices of value 0 may break the order; they then land at a wrong place, where adding 0 does no harm.
    # Added up by hand, since torch.bincount would make the host wait for a GPU to learn the largest index.
    ones = torch.ones(count, dtype=torch.int32, device=values.device)
    message[:head].view(torch.int32).zero_().scatter_add_(0, indices // CHUNK, ones)
    message[head:tail].view(values.dtype).copy_(values)
    message[tail : tail + 2 * count].view(torch.int16).copy_((indices % CHUNK).to(torch.int32).sub_(CHUNK // 2))
    return message


def unpack(message: Tensor, count: int, numel: int, dtype: torch.dtype, wanted: torch.dtype) -> tuple[Tensor, Tensor]:
    """Indices (int64) and values (in `wanted`) of a message whose values are of `dtype`."""
    chunks = -(-numel // CHUNK)
    head, tail = 4 * chunks, 4 * chunks + count * dtype.itemsize
    counts = message[:head].view(torch.int32).long()
    bases = torch.arange(chunks, device=message.device) * CHUNK
    indices = torch.repeat_interleave(bases, counts, output_size=count)
    indices += message[tail : tail + 2 * count].view(torch.int16).long() + CHUNK // 2
    return indices, message[head:tail].view(dtype).to(wanted)
