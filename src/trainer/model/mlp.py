"""A multi-layer perceptron."""

from __future__ import annotations

import itertools
import math
from typing import Annotated

from pydantic import Field
from torch import nn

from trainer.model.base import Model
from trainer.sample import Sample

Size = Annotated[int, Field(ge=1)]


class MLP(Model):
    """The flattened image through equal hidden layers with ReLU between them."""

    depth: Size = 2
    """the number of hidden layers"""
    width: Size = 256
    """the number of units in a hidden layer"""

    def build(self, sample: Sample) -> nn.Module:
        sizes = [math.prod(sample.shape)] + [self.width] * self.depth
        layers: list[nn.Module] = [nn.Flatten()]
        for size, following in itertools.pairwise(sizes):
            layers += [nn.Linear(size, following), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], sample.classes))
