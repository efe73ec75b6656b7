"""How the gradient of a model is cut into chunks; plain arithmetic, which a prediction does as well."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol


class Sized(Protocol):
    """What the plan reads of a tensor."""

    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def numel(self) -> int: ...


class Piece(NamedTuple):
    """The elements `start` to `stop` of a parameter."""

    parameter: int
    start: int
    stop: int


def plan(
    parameters: Sequence[Sized], cap_bytes: float, divisible: bool, borders: Collection[int] = ()
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
