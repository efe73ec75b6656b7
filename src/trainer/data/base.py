"""`data`: what is learned from."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field
from torch.utils.data import Dataset

from trainer.sample import Sample
from trainer.spec import Component


class Split(NamedTuple):
    """Two map-style data sets of (input, target) tensors."""

    train: Dataset
    evaluation: Dataset


class Data(Component):
    """Samples to train on and others to evaluate on."""

    workers: Annotated[int, Field(ge=0)] = 0
    """the number of loader processes a rank; 0 loads in the worker itself, which is best for data in memory"""
    prefetch: Annotated[int, Field(ge=1)] = 2
    """the number of batches each loader process keeps ready"""

    def sample(self) -> Sample:
        """What one sample looks like. Cheap: the launcher asks, before any process. Raises ConfigError."""
        raise NotImplementedError

    def count(self) -> int:
        """The number of training samples. Cheap as well."""
        raise NotImplementedError

    def build(self, seed: int) -> Split:
        """Both data sets; made data and random splits depend on `seed` only."""
        raise NotImplementedError
