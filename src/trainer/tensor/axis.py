"""The tensor axis as shared layers see it: their ranks, and the meter that sees what passes between them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from trainer.overlap.meter import SHARED, SHARED_WAIT, Meter, Span


@dataclass(frozen=True)
class Axis:
    """Ranks that share layers."""

    group: dist.ProcessGroup
    meter: Meter
    sequence: bool
    overlap: bool

    def __deepcopy__(self, memo: Any) -> Axis:
        # A process group has no copy.
        return self

    @property
    def size(self) -> int:
        return dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        return dist.get_rank(self.group)

    def shard(self, tensor: Tensor, dim: int) -> nn.Parameter:
        """This rank's part of a parameter, all but the last as large as torch.chunk makes them."""
        parts = tensor.detach().chunk(self.size, dim)
        own = parts[self.rank] if self.rank < len(parts) else tensor.detach().narrow(dim, 0, 0)
        return nn.Parameter(own.clone(), requires_grad=tensor.requires_grad)

    def begin(self, what: str, nbytes: float) -> Span:
        """Something begins to travel, of which this rank sends `nbytes`."""
        span = self.meter.begin(SHARED, what)
        span.bytes = nbytes
        return span

    def end(self, span: Span) -> None:
        """It is there."""
        span.end = self.meter.clock.mark()

    @contextlib.contextmanager
    def travels(self, what: str, nbytes: float) -> Iterator[None]:
        """Something travels within the body."""
        span = self.begin(what, nbytes)
        try:
            yield
        finally:
            self.end(span)

    def waits(self, what: str) -> contextlib.AbstractContextManager[Span]:
        """The body only waits for what travels."""
        return self.meter.span(SHARED_WAIT, what)
