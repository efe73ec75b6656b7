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
    any thread: a twin is stepped, which shares the optimizer's state and has groups of its own, so that whoever sets
    learning rates meanwhile finds the optimizer as it is.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self._twin = object.__new__(type(optimizer))
        vars(self._twin).update(vars(optimizer))
        groups = enumerate(optimizer.param_groups)
        self._group_of = {id(p): number for number, group in groups for p in group["params"]}
        self._lock = threading.Lock()

    def rates(self) -> list[float]:
        """The learning rates of the groups as they are now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor], rates: Sequence[float]) -> None:
        """Update `parameters` with `gradients`, at `rates`, one for each group."""
        parts: dict[int, list[Tensor]] = {}
        for parameter in parameters:
            # What is in no group is not trained, as a whole step would not either.
            if (number := self._group_of.get(id(parameter))) is not None:
                parts.setdefault(number, []).append(parameter)
        groups = self.optimizer.param_groups
        narrow: list[dict[str, Any]] = [
            {**groups[number], "params": part, "lr": rates[number]} for number, part in parts.items()
        ]
        with self._lock:
            # Loading a checkpoint gives the optimizer another state.
            self._twin.state, self._twin.param_groups = self.optimizer.state, narrow
            kept = [parameter.grad for parameter in parameters]
            try:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
                self._twin.step()
            finally:
                for parameter, before in zip(parameters, kept, strict=True):
                    parameter.grad = before
