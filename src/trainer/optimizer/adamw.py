"""Adam with decoupled weight decay."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from trainer.optimizer.base import Fraction, Lr, NonNegative, Optimizer, decayed


class AdamW(Optimizer):
    """torch.optim.AdamW (Loshchilov and Hutter 2019); weight decay acts on matrices only."""

    lr: Lr = 1e-3
    """the learning rate before the schedule's factor"""
    betas: tuple[Fraction, Fraction] = Field(default=(0.9, 0.95), strict=False)
    """the decay of the gradient's and of its square's running means"""
    eps: NonNegative = 1e-8
    """added to the denominator"""
    weight_decay: NonNegative = 0.1
    """the decoupled decay of matrices"""

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            decayed(module.parameters(), self.weight_decay),
            lr=self.lr,
            betas=self.betas,
            eps=self.eps,
            fused=True,  # one pass over memory instead of many: a third of the time
        )
