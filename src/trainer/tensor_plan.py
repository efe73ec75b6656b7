"""Which layers of a model can be shared out between tensor ranks: what a model says, and what shards it reads."""

from __future__ import annotations

from typing import NamedTuple


class Region(NamedTuple):
    """A module whose first layers are cut by columns and whose last ones by rows, with nothing between them that mixes.

    As in Megatron-LM (Shoeybi et al. 2019): each rank computes its own part of what lies between, and the parts of the
    output are added up. Nothing but the column layers may read the module's input: norms and residual connections are
    outside, for of their gradients each rank would have a part.
    """

    module: str
    """its name; `*` stands for any one part of it, as in `layers.*.attention`"""
    columns: tuple[str, ...]
    """the linear layers in it that read its input"""
    rows: tuple[str, ...]
    """the linear layers in it that give its output"""


class TensorPlan(NamedTuple):
    """How a model is shared out."""

    regions: tuple[Region, ...]
    embeddings: tuple[str, ...] = ()
    """embeddings that are cut by their vocabulary"""
    head: str | None = None
    """the last linear layer, if it may be cut by its outputs, over which the loss is then taken in parts"""
    sequence: tuple[str, str] | None = None
    """the first and the last module between which every position of the sequence (dim 1) is treated by itself, but in
    regions; their modules and all between them have names that begin alike, or are the last one"""
    heads: int | None = None
    """the number of attention heads, which are shared out whole"""
