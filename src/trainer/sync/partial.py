"""One optimizer, stepped for some of its parameters at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class PartialOptimizer:
    """Steps any torch optimizer for some parameters only, whose state stays where it always is.

    An optimizer that treats every parameter by itself ends as if it had been stepped once for all. Safe to call from
    several threads. Meanwhile `optimizer.param_groups` is another list, so who sets learning rates keeps the true one.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        groups = enumerate(optimizer.param_groups)
        self._group_of = {id(p): number for number, group in groups for p in group["params"]}
        self._lock = threading.Lock()

    def rates(self) -> list[float]:
        """The learning rates of the groups as they are now."""
        with self._lock:
            return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rates: Sequence[float]) -> None:
        """Update `parameters` with `gradients`, at `rates`, one for each group."""
        parts: dict[int, list[Tensor]] = {}
        for parameter in parameters:
            # What is in no group is not trained, as a whole step would not either.
            if (number := self._group_of.get(id(parameter))) is not None:
                parts.setdefault(number, []).append(parameter)
        with self._lock:
            kept = [parameter.grad for parameter in parameters]
            groups = self.optimizer.param_groups
            narrow: list[dict[str, Any]] = [
                {**groups[number], "params": part, "lr": rates[number]} for number, part in parts.items()
            ]
            self.optimizer.param_groups = narrow
            try:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
                self.optimizer.step()
            finally:
                self.optimizer.param_groups = groups
                for parameter, before in zip(parameters, kept, strict=True):
                    parameter.grad = before
