"""The gradient of a model in chunks: what travels together, in the order in which the next forward pass needs it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

MIB = 2**20


class Piece(NamedTuple):
    """The elements `start` to `stop` of a parameter."""

    parameter: int
    start: int
    stop: int


def plan(
    parameters: Sequence[Tensor], cap_bytes: float, divisible: bool, borders: Collection[int] = ()
) -> list[list[Piece]]:
    """Cut `parameters`, given in the order of their use, into chunks of about `cap_bytes`.

    Small neighbours share a chunk; a large parameter is cut into pieces of equal size if it is `divisible`. A chunk has
    one dtype. Every element is in exactly one piece, and the pieces of a parameter follow each other. A parameter whose
    number is in `borders` begins a chunk.
    """
    chunks: list[list[Piece]] = []
    room, dtype = 0.0, None
    for number, parameter in enumerate(parameters):
        parts = max(1, round(parameter.nbytes / cap_bytes)) if divisible else 1
        bounds = [part * parameter.numel() // parts for part in range(parts + 1)]
        for start, stop in itertools.pairwise(bounds):
            size = (stop - start) * parameter.itemsize
            border = start == 0 and number in borders
            if not chunks or border or size > room or parameter.dtype != dtype:
                chunks.append([])
                room, dtype = cap_bytes, parameter.dtype
            chunks[-1].append(Piece(number, start, stop))
            room -= size
    return chunks


class Chunk:
    """Some pieces, and the flat stretch of memory in which their gradients travel.

    It has the methods of torch's GradBucket, so that any communication hook can carry it.
    """

    def __init__(self, place: int, count: int, pieces: Sequence[Piece], parameters: Sequence[Tensor], flat: Tensor):
        self.place = place
        """its place in the order of use: the lower, the sooner it is needed"""
        self.pieces, self._buffer = list(pieces), flat
        self._count = count
        self._parameters = [parameters[piece.parameter] for piece in pieces]

    def index(self) -> int:
        """Counted as DDP counts its buckets, from the one whose gradients are computed first."""
        return self._count - 1 - self.place

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
