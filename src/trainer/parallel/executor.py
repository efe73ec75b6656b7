"""Forward and backward of one rank's share of a step."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from trainer.overlap.meter import Meter

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Executor(Protocol):
    """Computes a rank's part of a step."""

    module: nn.Module
    """what this rank has of the model, perhaps wrapped"""
    has_loss: bool
    """whether this rank computes the loss; on others it is NaN"""

    has_data: bool
    """whether this rank uses the batches it is given"""

    def forward_backward(self, inputs: Tensor, targets: Tensor, reduce: bool = True) -> Tensor:
        """The loss of the share, detached, on the device: the mean of its samples', or where losses are sums their sum.

        Gradients are left in the parameters, averaged over the replicas unless `reduce` is false.
        """

    def predict(self, inputs: Tensor) -> Tensor | None:
        """The model's output, None on ranks without the loss; evaluation moves no gradients and may be uneven."""

    def close(self) -> None:
        """End what the executor has running."""


class WholeExecutor:
    """Runs micro-batches one after another; the gradients are reduced in the last one's backward pass."""

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        output: Callable[[Tensor], Tensor],
        scale: float,
        device: torch.device,
        precision: str,
        microbatches: int,
        meter: Meter,
        scaler: torch.amp.GradScaler,
        accumulate: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        """`scale` is the factor on each micro-batch's loss; `output` makes the model's output of the module's.

        Passes within `accumulate()` must leave the replica's own gradients, unreduced.
        """
        self._output = output
        self.module, self.loss, self.scale, self.microbatches, self.meter = module, loss, scale, microbatches, meter
        self.has_loss = self.has_data = True
        self.scaler, self._accumulate = scaler, accumulate
        self._autocast = autocast_for(precision, device)

    def forward_backward(self, inputs: Tensor, targets: Tensor, reduce: bool = True) -> Tensor:
        losses = []
        pieces = list(zip(inputs.chunk(self.microbatches), targets.chunk(self.microbatches), strict=True))
        for number, (x, y) in enumerate(pieces):
            last = number == len(pieces) - 1
            with contextlib.nullcontext() if last and reduce else self._accumulate():
                with self.meter.span("forward"), self._autocast():
                    loss = self.loss(self.module(x), y) * self.scale
                with self.meter.span("backward"):
                    self.scaler.scale(loss).backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def close(self) -> None:
        """Nothing is open."""

    def predict(self, inputs: Tensor) -> Tensor:
        # Not through DDP, which would wait for the other replicas.
        inner = self.module.module if isinstance(self.module, DistributedDataParallel) else self.module
        with self._autocast():
            return self._output(inner(inputs))


def autocast_for(precision: str, device: torch.device) -> Callable[[], torch.autocast]:
    """What makes the context in which products are computed in `precision`."""
    return functools.partial(torch.autocast, device.type, dtype=DTYPES.get(precision), enabled=precision in DTYPES)


def scaler_for(precision: str, device: torch.device, parts: dist.ProcessGroup | None = None) -> torch.amp.GradScaler:
    """Only fp16 has too few exponent bits for gradients; without it the scaler passes everything through.

    The ranks of `parts`, if there are several, hold parts of one model: where the gradients of one overflow, all leave
    out the step.
    """
    if parts is not None and dist.get_world_size(parts) > 1:
        return ShardedGradScaler(device.type, enabled=precision == "fp16", process_group=parts)
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
