"""Interleaving: every variant has its turn in every round, so that what disturbs the machine disturbs all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
import torch.distributed as dist


class Stepper(Protocol):
    """A way to train, one whole optimizer step at a time."""

    def step(self) -> None: ...

    def settle(self) -> None:
        """Finish what the last step has left to do beside the next one."""

    def close(self) -> None: ...


class Bare:
    """A stepper that is one function and has nothing to close."""

    def __init__(self, step: Callable[[], object]) -> None:
        self._step = step

    def step(self) -> None:
        self._step()

    def settle(self) -> None:
        """A step leaves nothing to do."""

    def close(self) -> None:
        """Nothing is open."""


def interleave(
    steppers: Mapping[str, Stepper],
    rounds: int,
    steps: int,
    group: dist.ProcessGroup,
    device: torch.device,
    lead: int = 0,
    trail: int = 0,
) -> dict[str, list[float]]:
    """Seconds a step of each variant in each round, A B C A B C …; the same on all ranks.

    A turn is `steps` steps after `lead` others that do not count: where a step leaves work to do beside the next one,
    the first that counts finds as much of it as the last leaves. It counts from the slowest rank's last step before to
    the slowest rank's last step, since ranks that do not wait for each other in every step may drift apart and back.
    `trail` steps after it do not count either: while the slowest takes its last step, the others shall still compute.
    Before a turn all ranks meet on `group`, which no variant may use. Nothing waits for the device between the steps of
    a turn.
    """
    led, ended = turns = torch.zeros(2, len(steppers), rounds, dtype=torch.float64)
    for number in range(rounds):
        for row, stepper in enumerate(steppers.values()):
            _settle(device)
            dist.barrier(group=group)
            met = time.perf_counter()
            for _ in range(lead):
                stepper.step()
            _settle(device)
            led[row, number] = time.perf_counter() - met if lead else 0.0
            for _ in range(steps):
                stepper.step()
            _settle(device)
            ended[row, number] = time.perf_counter() - met
            for _ in range(trail):
                stepper.step()
            stepper.settle()
    dist.all_reduce(turns, op=dist.ReduceOp.MAX, group=group)
    return dict(zip(steppers, ((ended - led) / steps).tolist(), strict=True))


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
