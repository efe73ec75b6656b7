"""The tensor axis: layers shared out between ranks, which are neighbours."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.spec import Spec


class TensorAxis(Spec):
    """Parts of each layer, on ranks that should share a fast link."""

    size: Annotated[int, Field(ge=1)] = 1
    """the number of ranks that share each layer"""
    sequence: bool = False
    """whether what lies between the shared layers, such as norms and dropout, is shared out along the sequence, which
    saves activations for the same traffic"""
    overlap: bool = True
    """whether gradients of activations travel while those of weights are computed"""
