"""Stochastic gradient descent with momentum."""

from __future__ import annotations

import torch
from torch import nn

from trainer.optimizer.base import Fraction, Lr, NonNegative, Optimizer, decayed


class SGD(Optimizer):
    """torch.optim.SGD; weight decay acts on matrices only."""

    lr: Lr = 0.05
    """the learning rate before the schedule's factor"""
    momentum: Fraction = 0.9
    """the share of the last update that is kept"""
    weight_decay: NonNegative = 5e-4
    """the L2 penalty on matrices"""
    nesterov: bool = True
    """whether the gradient is taken after the momentum's step; needs momentum"""

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            decayed(module.parameters(), self.weight_decay),
            lr=self.lr,
            momentum=self.momentum,
            nesterov=self.nesterov and self.momentum > 0,
            fused=True,  # one pass over memory instead of four: a third of the time
        )
