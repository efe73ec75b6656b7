"""What one sample of a data set looks like: the only thing that models and data sets tell each other."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Sample(NamedTuple):
    """`image`: float tensor of `shape` (channels, height, width), target one class index of `classes`.
    `tokens`: int64 tensor of `shape` (length,), target of the same shape, both below `classes`."""

    kind: Literal["image", "tokens"]
    shape: tuple[int, ...]
    classes: int
