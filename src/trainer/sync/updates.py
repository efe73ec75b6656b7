"""The optimizer's steps for parameters that came in chunks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainer.sync.base import Replica
from trainer.sync.by_priority import Load
from trainer.sync.chunks import Chunks
from trainer.sync.partial import PartialOptimizer
from trainer.sync.previous_norm import PreviousNorm


class Updates:
    """Steps the optimizer for every parameter of which the last chunk has landed; on one thread at a time."""

    def __init__(self, replica: Replica, chunks: Chunks) -> None:
        self.meter = replica.meter
        self.optimizer = PartialOptimizer(replica.optimizer)
        self.clip = PreviousNorm(replica.max_norm) if replica.previous_norm else None
        self.cut(chunks)

    def cut(self, chunks: Chunks) -> None:
        """From now on these are the chunks; none is under way."""
        self._chunks = chunks
        self._landed: dict[int, int] = {}
        self._landings = 0

    @property
    def immediate(self) -> bool:
        """Whether chunks are used as they land: clipping by the norm of the step before needs one whole step first."""
        return self.clip is None or self.clip.known

    def land(self, load: Load) -> None:
        """The average of a chunk is there."""
        complete = []
        for parameter in load.chunk.parameters():
            key = id(parameter)
            self._landed[key] = self._landed.get(key, 0) + 1
            if self._landed[key] == len(self._chunks.of[key]):
                del self._landed[key]
                complete.append(parameter)
        gradients = [self._chunks.gradients[id(parameter)] for parameter in complete]
        if self.clip is not None:
            self.clip.see(gradients)
            self.clip.scale_(gradients)
        with self.meter.span("optimizer", f"bucket {load.chunk.index()}"):
            self.optimizer.step(complete, gradients, load.rates)
        self._landings += 1
        if self._landings == len(self._chunks.all):
            self._landings = 0
            if self.clip is not None:
                self.clip.next_step()

    def whole(self, parameters: Sequence[Tensor], rates: Sequence[float]) -> None:
        """All chunks of the first step are there: clip by its own norm, and update everything."""
        assert self.clip is not None
        gradients = [self._chunks.gradients[id(parameter)] for parameter in parameters]
        self.clip.see(gradients)
        self.clip.next_step()
        self.clip.scale_(gradients)
        with self.meter.span("optimizer"):
            self.optimizer.step(parameters, gradients, rates)
