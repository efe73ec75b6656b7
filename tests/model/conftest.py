"""Fixtures that the tests of all models share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainer.model.base import Model
from trainer.sample import Sample


@pytest.fixture
def build_twice() -> Callable[[Model, Sample], list[dict[str, Tensor]]]:
    """The weights of a model that was built with seed 0, again with seed 0, and with seed 1."""

    def build(model: Model, sample: Sample) -> list[dict[str, Tensor]]:
        weights = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            weights.append(model.build(sample).state_dict())
        return weights

    return build
