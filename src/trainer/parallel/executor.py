"""Forward and backward of one rank's share of a step."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainer.overlap.meter import Meter

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Executor:
    """Runs micro-batches one after another; the gradients are reduced in the last one's backward pass."""

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        device: torch.device,
        precision: str,
        microbatches: int,
        meter: Meter,
        scaler: torch.amp.GradScaler,
        accumulate: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        """Passes within `accumulate()` must leave the replica's own gradients, unreduced."""
        self.module, self.loss, self.microbatches, self.meter = module, loss, microbatches, meter
        self.scaler, self._accumulate = scaler, accumulate
        self._autocast = functools.partial(
            torch.autocast, device.type, dtype=DTYPES.get(precision), enabled=precision in DTYPES
        )

    def forward_backward(self, inputs: Tensor, targets: Tensor, reduce: bool = True) -> Tensor:
        """The mean loss over the share, detached, on the device.

        Gradients are left in the parameters, averaged over the replicas unless `reduce` is false.
        """
        losses = []
        pieces = list(zip(inputs.chunk(self.microbatches), targets.chunk(self.microbatches), strict=True))
        for number, (x, y) in enumerate(pieces):
            last = number == len(pieces) - 1
            with contextlib.nullcontext() if last and reduce else self._accumulate():
                with self.meter.span("forward"), self._autocast():
                    loss = self.loss(self.module(x), y) / len(pieces)
                with self.meter.span("backward"):
                    self.scaler.scale(loss).backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def predict(self, inputs: Tensor) -> Tensor:
        """The model's output, computed by the replica itself: evaluation moves no gradients and may be uneven."""
        inner = self.module.module if isinstance(self.module, DistributedDataParallel) else self.module
        with self._autocast():
            return inner(inputs)


def scaler_for(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Only fp16 has too few exponent bits for gradients; without it the scaler passes everything through."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
