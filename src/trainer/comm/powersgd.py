"""Matrices travel as the product of two thin ones."""

from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field
from torch import Tensor

from trainer.comm.compressed import Codec, Compressed, Plain
from trainer.comm.layout import Layout, Part
from trainer.comm.wire import Wire
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run


class PowerSGD(Compressed):
    """Low-rank gradients by one warm-started power iteration a step (Vogels et al. 2019), with a local residual."""

    rank: Annotated[int, Field(ge=1)] = 4
    """the rank of the approximation"""

    def check(self, run: "Run") -> None:
        if self.hierarchical:
            raise ConfigError(
                "comm.hierarchical: powersgd needs whole matrices, and a node's ranks would hold slices of them; set"
                " comm.hierarchical=false"
            )

    def codec(self) -> Codec:
        return _PowerSGD(self.rank)


class _PowerSGD(Plain):
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
        """For each matrix D (n, m): 1. P = D Q, averaged. 2. Orthogonalise P. 3. q = D^T P, averaged to Q. 4. The mean
        is P Q^T, and what this rank has not sent is D - P q^T.

        The residual subtracts the rank's own q, as the paper defines it. With the averaged Q, as some implementations
        do it, residuals gather the difference between ranks without bound. All matrices share one message a phase; one
        that no factors would shorten travels dense in the first.
        """
        layout = part.layout
        pairs = list(zip(layout.parameters, pending.split(layout.sizes), strict=True))
        thin = [(p, _matrix(flat, p)) for p, flat in pairs if self._pays(p)]
        whole = [flat for p, flat in pairs if not self._pays(p)]

        factors = [self._factor(layout, p, matrix) for p, matrix in thin]
        first = [matrix @ factor for (_, matrix), factor in zip(thin, factors, strict=True)]
        first = _average([*first, *whole], wire, "average of P")
        left = [_orthogonal(matrix) for matrix in first[: len(thin)]]
        own = [matrix.T @ basis for (_, matrix), basis in zip(thin, left, strict=True)]
        right = _average(own, wire, "average of Q") if own else []

        dense = iter(first[len(thin) :])
        low = iter(zip(thin, left, own, right, strict=True))
        for (p, flat), out in zip(pairs, mean.split(layout.sizes), strict=True):
            if not self._pays(p):
                out.copy_(next(dense))
                flat.zero_()
                continue
            (_, matrix), basis, mine, averaged = next(low)
            torch.mm(basis, averaged.T, out=_matrix(out, p))
            matrix.addmm_(basis, mine.T, alpha=-1)
            layout.memory.put(p, "factor", averaged)

    def _pays(self, parameter: Tensor) -> bool:
        rows = parameter.shape[0] if parameter.dim() > 1 else 1
        columns = parameter.numel() // rows
        return 2 * self.rank * (rows + columns) < rows * columns

    def _factor(self, layout: Layout, parameter: Tensor, matrix: Tensor) -> Tensor:
        """The last step's Q, or a random one that is the same on all ranks."""
        last = layout.memory.get(parameter, "factor")
        if last is not None and last.shape[1] == self.rank:
            return last
        generator = torch.Generator().manual_seed(matrix.shape[1])
        return torch.randn(matrix.shape[1], self.rank, generator=generator).to(matrix)


def _matrix(flat: Tensor, parameter: Tensor) -> Tensor:
    return flat.view(parameter.shape[0], -1)


def _orthogonal(matrix: Tensor) -> Tensor:
    """An orthonormal basis of the columns. A column of zeros gets some direction, which then carries nothing."""
    return torch.linalg.qr(matrix).Q


def _average(parts: list[Tensor], wire: Wire, phase: str) -> list[Tensor]:
    """The means over ranks of tensors, in one message."""
    flat = wire.average_(torch.cat([part.reshape(-1) for part in parts]), phase)
    pieces = flat.split([part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
