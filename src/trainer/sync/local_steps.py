"""Replicas that take optimizer steps of their own and come together in rounds."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from trainer.spec import ConfigError
from trainer.sync.base import Replica, Synchroniser
from trainer.sync.buffers import SharedBuffers
from trainer.sync.own_state import OwnState

if TYPE_CHECKING:
    from trainer.run import Run

log = logging.getLogger(__name__)

OWN = "own/"


def check_rounds(run: Run, period: int, warmup_steps: int) -> None:
    """Raise ConfigError where replicas of `run` could not come together well."""
    dense = getattr(run.comm, "warmup_steps", 0)
    if getattr(run.comm, "error_feedback", False) and dense < warmup_steps:
        raise ConfigError(
            f"comm.warmup_steps: {dense} is below sync.warmup_steps={warmup_steps}, so what was not sent of a gradient"
            f" would be added to a difference of parameters; use comm.warmup_steps={warmup_steps}"
        )
    if run.steps is None and run.epochs is None:
        return  # refused by the run itself
    if warmup_steps + period > run.total_steps:
        after = f" after {warmup_steps} steps of warm-up" if warmup_steps else ""
        raise ConfigError(
            f"sync.period: replicas would come together every {period} steps{after}, and the run has"
            f" {run.total_steps}; use a shorter period, or sync=strict"
        )


class Rounds(Protocol):
    """When and how replicas come together."""

    def start(self) -> None:
        """The replicas are alike, and go their own ways from here."""

    def step(self, number: int) -> bool:
        """Every replica has taken its step `number`, from 1; whether all have the same parameters now."""

    def settle(self) -> None:
        """Wait for what is under way, without applying it."""

    def finish(self) -> None:
        """Apply what is under way, after the last step."""

    def carried(self) -> dict[str, Tensor]:
        """What a checkpoint must hold, by name: the same on all replicas."""

    def resume(self, stored: dict[str, Tensor]) -> None:
        """Forget what came before, and take over what was carried; the parameters are the averages."""


class LocalSteps(Synchroniser):
    """Strict steps to warm up, and then steps of one's own.

    In those DDP neither reduces nor shares buffers, since it is told not to: gradients stay the replica's, and so do
    clipping, loss scaling and the optimizer's state. Buffers become the first replica's once a period, as before each
    forward pass of strict training and before each evaluation: an average would mean nothing for many, such as a count,
    and batch norm reads its running means in evaluation only.
    """

    def __init__(self, replica: Replica, period: int, warmup_steps: int, rounds: Rounds) -> None:
        super().__init__(replica, replica.wrap(replica.state, replica.hook))
        self.period, self.warmup_steps, self.rounds = period, warmup_steps, rounds
        self._buffers = SharedBuffers(replica.model, replica.group, replica.meter)
        self._own_state = OwnState(replica)
        self._alike = True
        """whether all replicas have the same parameters"""
        self._own: list[Tensor] | None = None
        """within `whole`, where they have not: this replica's own parameters and buffers"""
        self._count(0)

    def step(self) -> None:
        if self._steps == self.warmup_steps:
            self.rounds.start()
        self.replica.update()
        self._count(self._steps + 1)
        own_steps = self._steps - self.warmup_steps
        if own_steps > 0:
            self._alike = self.rounds.step(own_steps)
            if own_steps % self.period == 0:
                self._buffers.share()

    @contextmanager
    def whole(self) -> Iterator[None]:
        # Whoever looks at the hook, such as a checkpoint or the guard, shall find it at rest.
        self.rounds.settle()
        if not self._alike:
            self._own = [value.clone() for value in self._values().values()]
            self._average()
        try:
            yield
        finally:
            if self._own is not None:
                torch._foreach_copy_(list(self._values().values()), self._own)
                self._own = None

    def finish(self) -> None:
        self.rounds.finish()
        if not self._alike:
            self._average()
            self._buffers.share()
            self._alike = True

    def carried(self) -> dict[str, Tensor]:
        state = {"steps": torch.tensor(self._steps)}
        if self._steps > self.warmup_steps:
            state |= self._own_state.carried() | self.rounds.carried()
        if self._own is not None:
            state |= {f"{OWN}{name}": value for name, value in zip(self._values(), self._own, strict=True)}
        return state

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        source = stored[mine or 0]
        self._count(int(source.get("steps", 0)))
        apart = any(key.startswith(OWN) for key in source)
        self._own_state.resume(stored if mine is None else [source])
        if mine is None and apart:
            if dist.get_rank(self.replica.group) == 0:
                log.warning("sync: the number of replicas has changed, so all go on from the average of their weights")
            # What they would have come together from is not comparable with the average.
            source = {key: value for key, value in source.items() if not key.startswith(("before/", "travelling/"))}
        self.rounds.resume(source)
        self._alike = mine is None or not apart
        self._own = None if self._alike else [source[f"{OWN}{name}"].to(self.replica.device) for name in self._values()]

    def _count(self, steps: int) -> None:
        self._steps = steps
        if isinstance(self.module, DistributedDataParallel):
            # What its no_sync() does, for as long as this holds.
            self.module.require_backward_grad_sync = steps < self.warmup_steps

    def _values(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        model = self.replica.model
        return {name: value.detach() for name, value in (*model.named_parameters(), *model.named_buffers())}

    def _average(self) -> None:
        """Set the parameters to the exact mean over replicas, the same on all; the hook takes no part."""
        size = dist.get_world_size(self.replica.group)
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for parameter in self.replica.model.parameters():
            if parameter.requires_grad:
                kinds.setdefault(parameter.dtype, []).append(parameter.detach())
        for parameters in kinds.values():
            message = torch.cat([parameter.flatten() for parameter in parameters]).mul_(1 / size)
            dist.all_reduce(message, group=self.replica.group)
            parts = message.split([parameter.numel() for parameter in parameters])
            torch._foreach_copy_(parameters, [part.view_as(p) for part, p in zip(parts, parameters, strict=True)])
