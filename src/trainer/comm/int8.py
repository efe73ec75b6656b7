"""Eight bits an element, with a scale for every 256."""

import torch
from torch import Tensor

from trainer.comm import twophase
from trainer.comm.compressed import Codec, Compressed, Plain
from trainer.comm.layout import Part
from trainer.comm.tiles import tiles
from trainer.comm.wire import Wire

BLOCK = 256
LEVELS = 127


class Int8(Compressed):
    """Symmetric block quantisation in two phases (as in QSGD, Alistarh et al. 2017, and ZeRO++, Wang et al. 2023)."""

    def codec(self) -> Codec:
        return _Int8()


class _Int8(Plain):
    def reduce(self, pending: Tensor, part: Part, step: int, wire: Wire) -> Tensor:
        return twophase.average(pending, BLOCK, encode, lambda messages: decode(messages, pending.dtype), wire)


def message_bytes(length: int) -> int:
    """The bytes of a message of `length` elements, a multiple of BLOCK: one each and four a block."""
    return length + 4 * (length // BLOCK)


def encode(rows: Tensor) -> Tensor:
    """Rows (n, length) as messages: int8 levels, then the fp32 scales of the blocks. A block of zeros has scale 0."""
    count, length = rows.shape
    messages = torch.empty(count, message_bytes(length), dtype=torch.uint8, device=rows.device)
    scales = torch.empty(count, length // BLOCK, device=rows.device)
    for row, message, its_scales in zip(rows, messages, scales, strict=True):
        for tile in tiles(length, rows.device):
            blocks = row[tile].view(-1, BLOCK)
            scale = blocks.abs().amax(1).float().mul_(1 / LEVELS)
            its_scales[tile.start // BLOCK : tile.stop // BLOCK] = scale
            levels = blocks * torch.where(scale > 0, 1 / scale, 0)[:, None].to(rows.dtype)
            # A scale that is rounded down could lift the largest element over the last level.
            message[tile].view(torch.int8).copy_(levels.round_().clamp_(-LEVELS, LEVELS).view(-1))
    messages[:, length:] = scales.view(torch.uint8)
    return messages


def decode(messages: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows that messages stand for, (n, length)."""
    count = len(messages)
    length = messages.shape[1] * BLOCK // (BLOCK + 4)
    scales = messages[:, length:].contiguous().view(torch.float32).to(dtype)
    rows = torch.empty(count, length, dtype=dtype, device=messages.device)
    for row, message, its_scales in zip(rows, messages, scales, strict=True):
        for tile in tiles(length, messages.device):
            blocks = row[tile].copy_(message[tile].view(torch.int8)).view(-1, BLOCK)
            blocks.mul_(its_scales[tile.start // BLOCK : tile.stop // BLOCK, None])
    return rows
