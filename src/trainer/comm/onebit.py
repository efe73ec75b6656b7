"""One bit an element: its sign."""

from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from trainer.comm import bits, twophase
from trainer.comm.blocks import Blocks
from trainer.comm.compressed import Codec, Compressed
from trainer.comm.layout import Part
from trainer.comm.wire import Wire

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

    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
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
            twophase.average(pending, mean, Signs(), wire)
            return
        mean.zero_()
        if len(roles.signed):
            signed = pending[roles.signed]
            its_mean = torch.empty_like(signed)
            twophase.average(signed, its_mean, Signs(), wire)
            mean[roles.signed], pending[roles.signed] = its_mean, signed
        if roles.dense is not None:
            mean[roles.dense] = wire.average_(pending[roles.dense], "average of what travels dense")
            pending[roles.dense] = 0

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


class Signs(Blocks):
    """An element is its sign, which zeros have as well, times the mean magnitude of its block."""

    size, element_bits = 1024, 1

    def scale(self, blocks: Tensor) -> Tensor:
        return blocks.abs().mean(1, keepdim=True)

    def shrink(self, blocks: Tensor, scales: Tensor, payload: Tensor) -> None:
        payload.copy_(bits.pack(bits.negative(blocks.view(-1))))
        blocks.addcmul_(self._minus(payload, blocks), scales)

    def grow(self, payload: Tensor, scales: Tensor, blocks: Tensor) -> None:
        torch.mul(self._minus(payload, blocks), -scales, out=blocks)

    def _minus(self, payload: Tensor, blocks: Tensor) -> Tensor:
        """+1 where a bit says minus, and -1 elsewhere."""
        return bits.signs(payload, blocks.dtype).view_as(blocks)


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
