"""The step without communication: what it takes when nothing travels, measured now and then within the run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from trainer import generators
from trainer.overlap.meter import AWAITS, Meter
from trainer.parallel.executor import Executor


class Ablation:
    """Repeats a step's forward and backward passes without reducing anything, and throws the result away.

    The interval definition of exposed communication cannot see that computing is slower while something travels; the
    difference between a step and the same step without communication can. The run stays bitwise what it would be
    without: gradients are dropped, and buffers and random states are put back.
    """

    def __init__(self, executor: Executor, meter: Meter, device: torch.device, every: int) -> None:
        self.executor, self.meter, self.device, self.every = executor, meter, device, every
        self._marks: list[tuple[Any, Any]] = []

    def step(self, done: int, inputs: Tensor, targets: Tensor) -> None:
        """Repeat the step just done, if it is time. There must be no gradient left."""
        if done % self.every:
            return
        clock = self.meter.clock
        with _put_back(self.executor.module, self.device):
            start = clock.mark()
            self.executor.forward_backward(inputs, targets, reduce=False)
            self._marks.append((start, clock.mark()))
            for parameter in self.executor.module.parameters():
                parameter.grad = None

    def numbers(self) -> list[float]:
        """The number of repeated steps since the last call whose time is known, and their seconds in all."""
        clock = self.meter.clock
        known = [(start, end) for start, end in self._marks if clock.passed(end)]
        self._marks = self._marks[len(known) :]
        return [len(known), sum(clock.between(start, end) for start, end in known)]


def compare(ranks: list[dict[str, float]], repeated: list[list[float]]) -> dict[str, float]:
    """Metrics from what every rank measured of its steps and of its repeated ones; empty where there were none.

    `overlap/ablation_exposed_ms` is what communication adds to the forward and backward passes of the slowest rank,
    `overlap/ablation_hidden_ratio` what of communication it does not add, and `overlap/slowdown` computing beside
    communication over computing alone, as the mean over ranks. Waiting for neighbouring stages is part of a pipeline's
    passes: a repeated step has it, too.
    """
    pairs = [(sums, seconds / count) for sums, (count, seconds) in zip(ranks, repeated, strict=True) if sums and count]
    if len(pairs) < len(ranks):
        return {}
    computing = [sum(sums[lane] for lane in ("forward", "backward", *AWAITS)) for sums, _ in pairs]
    whole = [passes + sums["tail"] for passes, (sums, _) in zip(computing, pairs, strict=True)]
    alone = [seconds for _, seconds in pairs]
    exposed, comm = max(whole) - max(alone), sum(sums["comm"] for sums, _ in pairs) / len(pairs)
    return {
        "overlap/ablation_exposed_ms": exposed * 1000,
        **({"overlap/ablation_hidden_ratio": 1 - exposed / comm} if comm else {}),
        "overlap/slowdown": sum(computing) / sum(alone),
    }


@contextlib.contextmanager
def _put_back(module: torch.nn.Module, device: torch.device) -> Iterator[None]:
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    with generators.kept(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)
