"""`optimizer`: how a gradient changes a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from trainer.spec import Component

Lr = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


class Optimizer(Component):
    """Builds a torch optimizer; the schedule scales the learning rate that it starts with."""

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        """An optimizer over the parameters of `module` that need a gradient."""
        raise NotImplementedError


def decayed(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict]:
    """Two parameter groups: matrices decay, biases and norms (fewer than two dims) do not."""
    trained = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
