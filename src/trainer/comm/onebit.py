"""One bit an element: its sign."""

from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from trainer.comm import bits, twophase
from trainer.comm.compressed import Codec, Compressed
from trainer.comm.layout import Part
from trainer.comm.tiles import tiles
from trainer.comm.wire import Wire

BLOCK = 1024
# Above this contraction ||x - C(x)||^2 / ||x||^2 a sign says next to nothing: embeddings, with their few used rows.
WORST = 0.9


class OneBit(Compressed):
    """Signs with an L1 scale a block, in two phases with error feedback at both ends (Tang et al. 2021).

    A sign cannot say zero, so a coordinate whose gradient was zero on all ranks so far takes no part and stays put. A
    parameter whose signs say too little travels dense. Ranks agree on both every `agree_every` steps; what has become
    non-zero in between waits in the residual until then.
    """

    agree_every: Annotated[int, Field(ge=1)] = 100
    """the number of steps between agreements on what takes part and what travels dense"""

    def codec(self) -> Codec:
        return _OneBit(self)


class _Roles(NamedTuple):
    """Indices of the elements that travel dense and as signs; None stands for no and for all elements."""

    dense: Tensor | None
    signed: Tensor | None


class _OneBit:
    def __init__(self, spec: OneBit) -> None:
        self.spec = spec
        self._gradient: Tensor | None = None

    def accumulate(self, pending: Tensor, gradient: Tensor, part: Part) -> None:
        pending.add_(gradient)
        self._gradient = gradient

    def reduce(self, pending: Tensor, part: Part, step: int, wire: Wire) -> Tensor:
        """1. Now and then, agree on roles. 2. Average the dense elements. 3. Average the signed ones in two phases."""
        due = (step - self.spec.dense_steps) % self.spec.agree_every == 0
        live = part.flat("live", torch.empty(0, dtype=torch.bool, device=pending.device))
        flags = part.flat("dense", live)
        if due:
            self._agree(pending, part, live, flags, wire)
        start = part.place.start or 0
        if due or start not in part.layout.notes:
            part.layout.notes[start] = _roles(live, flags)
        roles = part.layout.notes[start]

        if roles.signed is None:
            return self._average(pending, wire)
        mean = torch.zeros_like(pending)
        signed = pending[roles.signed]
        if len(signed):
            mean[roles.signed] = self._average(signed, wire)
            pending[roles.signed] = signed
        if roles.dense is not None:
            mean[roles.dense] = wire.average_(pending[roles.dense], "average of what travels dense")
            pending[roles.dense] = 0
        return mean

    def _average(self, pending: Tensor, wire: Wire) -> Tensor:
        return twophase.average(pending, BLOCK, encode, lambda messages: decode(messages, pending.dtype), wire)

    def _agree(self, pending: Tensor, part: Part, live: Tensor, flags: Tensor, wire: Wire) -> None:
        """An element is live once any rank's gradient was not zero; a parameter is dense where signs would lose more
        than WORST of its gradient, in the mean over ranks. What is pending says less: once sent, it is zero nowhere."""
        assert self._gradient is not None, "a gradient was just accumulated"
        live |= _any(pending != 0, wire)
        pieces = part.pieces()
        lost = torch.stack([_contraction(self._gradient[piece]) for piece in pieces])
        lost = wire.average_(lost, "agreement on what travels dense")
        for piece, bad in zip(pieces, lost > WORST, strict=True):
            flags[piece] = bad


def message_bytes(length: int) -> int:
    """The bytes of a message of `length` elements, a multiple of BLOCK: one eighth each and four a block."""
    return length // 8 + 4 * (length // BLOCK)


def encode(rows: Tensor) -> Tensor:
    """Rows (n, length) as messages: packed signs, zero counting as positive, then the fp32 mean magnitude of blocks."""
    count, length = rows.shape
    messages = torch.empty(count, message_bytes(length), dtype=torch.uint8, device=rows.device)
    scales = torch.empty(count, length // BLOCK, device=rows.device)
    for row, message, its_scales in zip(rows, messages, scales, strict=True):
        for tile in tiles(length, rows.device):
            message[tile.start // 8 : tile.stop // 8] = bits.pack(row[tile] >= 0)
            its_scales[tile.start // BLOCK : tile.stop // BLOCK] = row[tile].abs().view(-1, BLOCK).mean(1)
    messages[:, length // 8 :] = scales.view(torch.uint8)
    return messages


def decode(messages: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows that messages stand for, (n, length): in each block its mean magnitude, with the signs."""
    count = len(messages)
    length = messages.shape[1] * BLOCK // (BLOCK // 8 + 4)
    scales = messages[:, length // 8 :].contiguous().view(torch.float32).to(dtype)
    rows = torch.empty(count, length, dtype=dtype, device=messages.device)
    for row, message, its_scales in zip(rows, messages, scales, strict=True):
        for tile in tiles(length, messages.device):
            signs = bits.signs(message[tile.start // 8 : tile.stop // 8], dtype).view(-1, BLOCK)
            scale = its_scales[tile.start // BLOCK : tile.stop // BLOCK, None]
            torch.mul(signs, scale, out=row[tile].view(-1, BLOCK))
    return rows


def _roles(live: Tensor, flags: Tensor) -> _Roles:
    signed = live & ~flags
    if signed.all():
        return _Roles(None, None)
    return _Roles(flags.nonzero().squeeze(1) if flags.any() else None, signed.nonzero().squeeze(1))


def _any(flags: Tensor, wire: Wire) -> Tensor:
    """Elementwise or of a bool tensor over the ranks, in two phases of packed bits."""
    unit = 8 * wire.size
    padded = torch.nn.functional.pad(flags, (0, -len(flags) % unit))
    received = wire.swap(bits.pack(padded.view(wire.size, -1)), "agreement on what takes part")
    either = received[0]
    for packed in received[1:]:
        either = either | packed
    everyones = wire.gather(either, "agreement on what takes part")
    return (bits.signs(everyones, torch.int8) > 0).flatten()[: len(flags)]


def _contraction(x: Tensor) -> Tensor:
    """||x - C(x)||^2 / ||x||^2 for one scale over all of `x`; 0 for nothing."""
    square = x.dot(x)
    lost = 1 - x.abs().sum() ** 2 / (max(1, x.numel()) * square)
    return torch.where(square > 0, lost, 0).float()
