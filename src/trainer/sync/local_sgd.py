"""Average the parameters every some steps, instead of the gradients in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from trainer.sync.base import Replica, Sync, Synchroniser
from trainer.sync.differences import Differences
from trainer.sync.local_steps import LocalSteps, check_rounds

if TYPE_CHECKING:
    from trainer.run import Run


class LocalSGD(Sync):
    """Local SGD (Stich 2019), and with a warm-up post-local SGD (Lin et al. 2020): bytes fall by the period.

    The optimizer's state is each replica's own and is not averaged. Evaluation and checkpoints see the average of the
    replicas' weights.
    """

    apart: ClassVar[bool] = True

    period: Annotated[int, Field(ge=1)] = 8
    """the number of steps between averagings"""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """the number of first steps that are strict"""

    def check(self, run: Run) -> None:
        check_rounds(run, self.period, self.warmup_steps)

    def attach(self, replica: Replica) -> Synchroniser:
        return LocalSteps(replica, self.period, self.warmup_steps, _Averages(replica, self.period))


class _Averages:
    """Parameters become those before minus the mean difference, which is their mean where nothing is lost on the way.

    What every replica adds up is the same on all of them, so a hook that loses something leaves them alike.
    """

    def __init__(self, replica: Replica, period: int) -> None:
        self._period, self._meter = period, replica.meter
        self._differences = Differences(replica, [[p for p in replica.model.parameters() if p.requires_grad]])

    def start(self) -> None:
        self._differences.start()

    def step(self, number: int) -> bool:
        if number % self._period:
            return False
        self._differences.send(0)
        mean = self._differences.mean(0)
        with self._meter.span("optimizer", "averages"):
            (before,), (now,) = self._differences.before, self._differences.parts
            torch._foreach_sub_(before, mean)
            torch._foreach_copy_(now, before)
        return True

    def settle(self) -> None:
        """Nothing is under way between steps."""

    def finish(self) -> None:
        """Nothing is under way between steps."""

    def carried(self) -> dict[str, Tensor]:
        return self._differences.carried()

    def resume(self, stored: dict[str, Tensor]) -> None:
        self._differences.resume(stored)
