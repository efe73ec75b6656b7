"""Eight bits an element, with a scale for every 256."""

import torch
from torch import Tensor

from trainer.comm import twophase
from trainer.comm.blocks import Blocks
from trainer.comm.compressed import Codec, Compressed, Plain
from trainer.comm.layout import Part
from trainer.comm.wire import Wire

LEVELS = 127
# Below it a reciprocal overflows; so small a block is lost as a whole, and waits.
LEAST = torch.finfo(torch.float32).tiny


class Int8(Compressed):
    """Symmetric block quantisation in two phases (as in QSGD, Alistarh et al. 2017, and ZeRO++, Wang et al. 2023)."""

    def codec(self) -> Codec:
        return _Int8()


class _Int8(Plain):
    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
        twophase.average(pending, mean, Levels(), wire)


class Levels(Blocks):
    """An element is one of 255 levels, of which the largest in a block takes the last."""

    size, element_bits = 256, 8

    def scale(self, blocks: Tensor) -> Tensor:
        return blocks.abs().amax(1, keepdim=True) / LEVELS

    def shrink(self, blocks: Tensor, scales: Tensor, payload: Tensor) -> None:
        levels = (blocks * torch.where(scales >= LEAST, 1 / scales, 0)).round_()
        payload.view(torch.int8).copy_(levels.view(-1))
        blocks.sub_(levels.mul_(scales))

    def grow(self, payload: Tensor, scales: Tensor, blocks: Tensor) -> None:
        blocks.view(-1).copy_(payload.view(torch.int8))
        blocks.mul_(scales)
