"""Wait for every gradient, then update every parameter: the reference."""

from __future__ import annotations

import torch
from torch import nn

from trainer.sync.base import Sync, Synchroniser


class Strict(Sync):
    """Plain synchronous training, as DDP does it."""

    def attach(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        max_norm: float | None,
    ) -> Synchroniser:
        return _Strict(module, optimizer, scaler, max_norm)


class _Strict:
    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        max_norm: float | None,
    ) -> None:
        self.module, self.optimizer, self.scaler, self.max_norm = module, optimizer, scaler, max_norm

    def step(self) -> None:
        if self.max_norm is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.module.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def flush(self) -> None:
        """Nothing is ever pending: the weights are whole after every step."""
