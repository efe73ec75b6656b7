"""Quantised tensors as messages: a few bits an element, and a scale for every block of elements."""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainer.comm.tiles import tiles


class Blocks:
    """A format of messages. Derived classes say how blocks become bits and how bits become blocks.

    A message is uint8: the bits of all elements, then the fp32 scales of all blocks. What it stands for is bitwise the
    same on all ranks, the sender's included.
    """

    size: int
    """the number of elements in a block, of which whole ones travel"""
    element_bits: int
    """the number of bits an element takes"""

    def scale(self, blocks: Tensor) -> Tensor:
        """The scales (n, 1) of `blocks` (n, size)."""
        raise NotImplementedError

    def shrink(self, blocks: Tensor, scales: Tensor, payload: Tensor) -> None:
        """Write the bits of `blocks` at these scales into `payload`, and leave in `blocks` what that loses."""
        raise NotImplementedError

    def grow(self, payload: Tensor, scales: Tensor, blocks: Tensor) -> None:
        """Write into `blocks` what `payload` stands for at these scales."""
        raise NotImplementedError

    def message_bytes(self, length: int) -> int:
        """The bytes of a message of `length` elements, which are whole blocks."""
        return length * self.element_bits // 8 + 4 * (length // self.size)

    def encode(self, flat: Tensor, message: Tensor, parts: int = 1) -> Tensor:
        """Write `flat` divided by `parts` into `message`, which is returned.

        `flat` keeps what so many times the message does not say.
        """
        for blocks, payload, scales in self._tiles(flat, message):
            scales.copy_(self.scale(blocks) / parts)
            self.shrink(blocks, scales.to(flat.dtype) * parts, payload)
        return message

    def decode(self, message: Tensor, flat: Tensor) -> Tensor:
        """Write into `flat`, which is returned, what `message` stands for."""
        for blocks, payload, scales in self._tiles(flat, message):
            self.grow(payload, scales.to(flat.dtype), blocks)
        return flat

    def add(self, message: Tensor, flat: Tensor) -> None:
        """Add to `flat` what `message` stands for."""
        for blocks, payload, scales in self._tiles(flat, message):
            grown = torch.empty_like(blocks)
            self.grow(payload, scales.to(flat.dtype), grown)
            blocks += grown

    def _tiles(self, flat: Tensor, message: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Blocks, bits and scales (n, 1), tile by tile, as views of a tensor and its message."""
        length = flat.numel()
        scales = message[length * self.element_bits // 8 :].view(torch.float32)[:, None]
        for tile in tiles(length, flat.device):
            payload = message[tile.start * self.element_bits // 8 : tile.stop * self.element_bits // 8]
            yield flat[tile].view(-1, self.size), payload, scales[tile.start // self.size : tile.stop // self.size]
