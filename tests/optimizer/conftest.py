"""Fixtures that the tests of all optimizers share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

Build = Callable[[nn.Module], torch.optim.Optimizer]


@pytest.fixture
def module() -> nn.Module:
    """Matrices, biases and a norm; the embedding is frozen."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 5), nn.LayerNorm(5), nn.Linear(5, 3))
    net[0].weight.requires_grad_(False)
    return net


@pytest.fixture
def names() -> Callable[[nn.Module, list], set[str]]:
    """The names in a module of the parameters of an optimizer's group."""

    def names(module: nn.Module, group: list) -> set[str]:
        known = {id(parameter): name for name, parameter in module.named_parameters()}
        return {known[id(parameter)] for parameter in group}

    return names


@pytest.fixture
def trained(module: nn.Module) -> Callable[[Build], list[torch.Tensor]]:
    """The parameters after five steps from the same start with the optimizer that `build` makes."""
    start = {name: value.clone() for name, value in module.state_dict().items()}

    def train(build: Build) -> list[torch.Tensor]:
        module.load_state_dict(start)
        optimizer = build(module)
        for step in range(5):
            tokens = torch.arange(6).add(step) % 9
            nn.functional.cross_entropy(module(tokens), tokens % 3).backward()
            optimizer.step()
            optimizer.zero_grad()
        return [parameter.detach().clone() for parameter in module.parameters()]

    return train
