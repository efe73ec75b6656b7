"""How far the replicas have gone since they were last alike, averaged through the communication hook."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainer.sync.base import Replica, take_over
from trainer.sync.chunks import MIB, Chunk, Chunks

# Large enough to fill a link, and small enough that a hook of several phases has one chunk to encode while another
# travels.
CHUNK_BYTES = 8 * MIB


class Differences:
    """Parts of a model's parameters, each sent at a time of its own as `before` minus now.

    A difference points the other way than the change, as a gradient does: subtracting it goes on. The hook sees chunks
    in place of DDP's buckets, so whatever it does to gradients it does to differences.
    """

    def __init__(self, replica: Replica, parts: Sequence[Sequence[nn.Parameter]]) -> None:
        self._replica = replica
        self.parts = [[parameter.detach() for parameter in part] for part in parts]
        """the parameters of each part, as they are now"""
        self.before = [[parameter.clone() for parameter in part] for part in self.parts]
        """as they were when all replicas last agreed on them"""
        names = {id(p): name for name, p in replica.model.named_parameters()}
        self._names = [[names[id(p)] for p in part] for part in parts]
        # A hook counts a step at bucket 0, so chunks travel in ascending order, the first part's first.
        order = [p for part in reversed(parts) for p in part]
        borders = itertools.accumulate(len(part) for part in reversed(parts))
        self._chunks = Chunks(order, CHUNK_BYTES, replica.divisible, set(borders))
        self._chunks_of = [
            sorted({chunk for p in part for chunk in self._chunks.of[id(p)]}, key=Chunk.index) for part in parts
        ]
        self._means = [[self._chunks.gradients[id(p)] for p in part] for part in parts]
        self._flying: list[list[tuple[Chunk, torch.futures.Future[Tensor]]]] = [[] for _ in parts]

    def start(self) -> None:
        """The replicas are alike."""
        for before, now in zip(self.before, self.parts, strict=True):
            torch._foreach_copy_(before, now)

    def send(self, part: int) -> None:
        """Let the difference of a part travel; the parameters may change meanwhile."""
        for difference, before, now in zip(self._means[part], self.before[part], self.parts[part], strict=True):
            torch.sub(before, now, out=difference)
        hook, state = self._replica.hook, self._replica.state
        self._flying[part] = [(chunk, hook(state, chunk)) for chunk in self._chunks_of[part]]

    def mean(self, part: int) -> list[Tensor]:
        """Wait for the mean over replicas of what was sent last of a part: alike on all, in memory that is reused."""
        with self._replica.meter.span("wait", "differences"):
            for chunk, future in self._flying[part]:
                take_over(future.wait(), chunk.buffer())
        self._flying[part] = []
        return self._means[part]

    def carried(self) -> dict[str, Tensor]:
        return {
            key: value for part, values in enumerate(self.before) for key, value in self.named("before", part, values)
        }

    def resume(self, stored: dict[str, Tensor]) -> None:
        """Take over what was carried, or else the parameters as they are; nothing is under way then."""
        for part in range(len(self.parts)):
            self.mean(part)
        self.start()
        for part, values in enumerate(self.before):
            self.take("before", part, values, stored)

    def named(self, kind: str, part: int, values: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
        """Tensors that belong to the parameters of a part, with names for a checkpoint."""
        return [(f"{kind}/{name}", value) for name, value in zip(self._names[part], values, strict=True)]

    def take(self, kind: str, part: int, values: Sequence[Tensor], stored: dict[str, Tensor]) -> None:
        """Copy into `values` what is stored under the names that they have; the rest stays."""
        for key, value in self.named(kind, part, values):
            if key in stored:
                value.copy_(stored[key])
