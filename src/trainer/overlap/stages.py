"""Which stage and micro-batch of a pipeline a span is about, told by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

PASS = re.compile(r"(weights of )?stage (\d+), micro-batch (\d+)")
MESSAGE = re.compile(r"(?:activations|gradients) of micro-batch (\d+) to stage (\d+)")


class Piece(NamedTuple):
    """What one stage does with one micro-batch, or waits for."""

    stage: int
    microbatch: int
    weights: bool = False
    """whether it is the second part of a split backward pass, which computes the gradients of the weights"""


def piece(name: str) -> Piece | None:
    """What a span of a lane of the training thread is about; None outside of a pipeline."""
    found = PASS.fullmatch(name)
    return Piece(int(found[2]), int(found[3]), bool(found[1])) if found else None


def message(name: str) -> Piece | None:
    """What a message on the wire is about, with the stage that receives it."""
    found = MESSAGE.fullmatch(name)
    return Piece(int(found[2]), int(found[1])) if found else None


def held(names: Iterable[str]) -> tuple[int, ...]:
    """The stages that spans of these names are about, in order."""
    pieces = (piece(name) for name in names)
    return tuple(sorted({found.stage for found in pieces if found}))
