"""Any optimizer of torch.optim, by its class name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from trainer.optimizer.base import Lr, Optimizer
from trainer.spec import ConfigError, did_you_mean

if TYPE_CHECKING:
    from trainer.run import Run

# Takes a closure that evaluates the loss several times a step, which no distributed loop can give it.
REFUSED = {"LBFGS": "it evaluates the loss several times a step", "SparseAdam": "DDP reduces dense gradients"}


class ByName(Optimizer):
    """`torch.optim.<class_name>(parameters, lr=lr, **options)`."""

    class_name: str = "RMSprop"
    """the name of a class of torch.optim"""
    lr: Lr = 1e-3
    """the learning rate before the schedule's factor"""
    options: dict[str, Any] = {}
    """the further arguments of the class"""

    def check(self, run: Run) -> None:
        classes = {
            name: cls
            for name, cls in vars(torch.optim).items()
            if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
        }
        if self.class_name not in classes:
            raise ConfigError(
                f"optimizer.class_name: torch.optim has no '{self.class_name}'{did_you_mean(self.class_name, classes)}"
            )
        if self.class_name in REFUSED:
            raise ConfigError(
                f"optimizer.class_name: {self.class_name} cannot train here: {REFUSED[self.class_name]};"
                " choose a first-order optimizer such as RMSprop"
            )
        known = set(inspect.signature(classes[self.class_name]).parameters) - {"params", "lr"}
        for option in self.options:
            if option not in known:
                raise ConfigError(
                    f"optimizer.options.{option}: {self.class_name} has no such argument{did_you_mean(option, known)}"
                )
        try:
            self.build(nn.Linear(2, 2))
        except Exception as error:  # torch's optimizers raise several types for a bad value
            raise ConfigError(
                f"optimizer.options: {self.class_name} refuses them: {error}; change the value"
            ) from error

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        trained = [p for p in module.parameters() if p.requires_grad]
        return getattr(torch.optim, self.class_name)(trained, lr=self.lr, **self.options)
