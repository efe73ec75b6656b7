"""The gradient of a model in chunks: what travels together, in the order in which the next forward pass needs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor, nn

from trainer.sync.chunk_plan import Piece, plan

MIB = 2**20


class Chunk:
    """Some pieces, and the flat stretch of memory in which their gradients travel.

    It has the methods of torch's GradBucket, so that any communication hook can carry it.
    """

    def __init__(self, place: int, count: int, pieces: Sequence[Piece], parameters: Sequence[Tensor], flat: Tensor):
        self.place = place
        """its place in the order of use: the lower, the sooner it is needed"""
        self.pieces, self._buffer = list(pieces), flat
        self.count = count
        """the number of chunks of the model"""
        self._parameters = [parameters[piece.parameter] for piece in pieces]

    def index(self) -> int:
        """Counted as DDP counts its buckets, from the one whose gradients are computed first."""
        return self.count - 1 - self.place

    def buffer(self) -> Tensor:
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        self._buffer.copy_(buffer)

    def parameters(self) -> list[Tensor]:
        return self._parameters

    def gradients(self) -> list[Tensor]:
        sizes = [piece.stop - piece.start for piece in self.pieces]
        return [
            part.view_as(parameter) if part.numel() == parameter.numel() else part
            for part, parameter in zip(self._buffer.split(sizes), self._parameters, strict=True)
        ]

    def is_last(self) -> bool:
        """Never: which chunk is the last of a step is decided while it runs."""
        return False


class Chunks:
    """All chunks of a model's gradient, in memory that is theirs from step to step."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], cap_bytes: float, divisible: bool, borders: Collection[int] = ()
    ) -> None:
        self.parameters = list(parameters)
        planned = plan(parameters, cap_bytes, divisible, borders)
        self.all: list[Chunk] = []
        self.of: dict[int, list[Chunk]] = {id(parameter): [] for parameter in parameters}
        """the chunks that hold pieces of a parameter, by its id"""
        self.gradients: dict[int, Tensor] = {}
        """the gradient of a parameter, by its id, laid out as the parameter is"""
        for pieces in _runs(planned, parameters):
            total = sum(piece.stop - piece.start for chunk in pieces for piece in chunk)
            like = parameters[pieces[0][0].parameter]
            flat = torch.zeros(total, dtype=like.dtype, device=like.device)
            self._lay_out(pieces, len(planned), flat)

    def _lay_out(self, run: Sequence[Sequence[Piece]], count: int, flat: Tensor) -> None:
        """Chunks one behind the other in `flat`, so that a parameter that was cut is one stretch nevertheless."""
        begin = 0
        for pieces in run:
            end = begin + sum(piece.stop - piece.start for piece in pieces)
            chunk = Chunk(len(self.all), count, pieces, self.parameters, flat[begin:end])
            self.all.append(chunk)
            for piece in pieces:
                parameter = self.parameters[piece.parameter]
                self.of[id(parameter)].append(chunk)
                if piece.start == 0:
                    stretch = flat[begin : begin + parameter.numel()]
                    self.gradients[id(parameter)] = stretch.as_strided(
                        parameter.size(), _dense_strides(parameter), stretch.storage_offset()
                    )
                begin += piece.stop - piece.start


def _runs(chunks: Sequence[list[Piece]], parameters: Sequence[Tensor]) -> Iterable[list[list[Piece]]]:
    """Neighbouring chunks of one dtype."""
    run: list[list[Piece]] = []
    for chunk in chunks:
        if run and parameters[run[-1][0].parameter].dtype != parameters[chunk[0].parameter].dtype:
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run


def _dense_strides(parameter: Tensor) -> tuple[int, ...]:
    """The parameter's own strides where its elements fill its memory, such as channels last; else the usual ones."""
    return torch.empty_like(parameter, device="meta").stride()
