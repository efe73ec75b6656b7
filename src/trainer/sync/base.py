"""`sync`: when a gradient is waited for and when a parameter is updated."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from trainer.spec import Component


class Synchroniser(Protocol):
    """A sync rule attached to a model and its optimizer."""

    def step(self) -> None:
        """Bring the parameters to the end of this step, as the rule understands it, and drop used gradients."""

    def flush(self) -> None:
        """Make the weights whole: before evaluation, a checkpoint and the end."""


class Sync(Component):
    """A rule for when parameters are updated."""

    def attach(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        max_norm: float | None,
    ) -> Synchroniser:
        """Attach the rule to `module`; gradients are clipped to the global L2 norm `max_norm` unless it is None."""
        raise NotImplementedError
