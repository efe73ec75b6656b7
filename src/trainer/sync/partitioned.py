"""Update each partition of the parameters the moment its averaged gradient arrives."""

# No future annotations: DDP inspects the annotation of `bucket` and refuses a string.

import threading
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainer.sync.base import Replica, Sync, Synchroniser, take_over
from trainer.sync.partial import PartialOptimizer
from trainer.sync.previous_norm import PreviousNorm


class Partitioned(Sync):
    """Exactly strict, but no parameter waits for the gradients of the others.

    A bucket arrives when all of its gradients are computed on all ranks, so nothing in the backward pass needs its
    weights any more. The optimizer must treat every parameter by itself, as torch's do.
    """

    early: ClassVar[bool] = True

    partition: Literal["bucket", "layer"] = "bucket"
    """what is updated at once: the parameters of a bucket, or those of a layer when the last of them has arrived"""

    def attach(self, replica: Replica) -> Synchroniser:
        return _Partitioned(replica, self.partition)


class _Partitioned(Synchroniser):
    def __init__(self, replica: Replica, partition: str) -> None:
        super().__init__(replica, replica.model)
        self.optimizer = PartialOptimizer(replica.optimizer)
        self._layers = _Layers(replica.model) if partition == "layer" else None
        self._clip = PreviousNorm(replica.max_norm) if replica.previous_norm else None
        self.module = replica.wrap(self, _reduce_then_update)

    @property
    def immediate(self) -> bool:
        """Whether a partition is updated before the others are seen: clipping needs the norm of one whole step."""
        return self._clip is None or self._clip.known

    def step(self) -> None:
        alone = self.module is self.replica.model
        if alone or not self.immediate:
            if self._clip is not None:
                self._clip.see([p.grad for p in self.replica.model.parameters() if p.grad is not None])
            self.replica.update()
        else:
            self.replica.optimizer.zero_grad(set_to_none=True)
        if self._clip is not None:
            self._clip.next_step()

    def update(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Called on whatever thread has brought the bucket."""
        if self._clip is not None:
            self._clip.see(gradients)
            self._clip.scale_(gradients)
        if self._layers is not None:
            parameters, gradients = self._layers.complete(parameters, gradients)
        with self.replica.meter.span("optimizer", "partition"):
            self.optimizer.step(parameters, gradients, self.optimizer.rates())

    def carried(self) -> dict[str, Tensor]:
        return {} if self._clip is None else self._clip.carried()

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        if self._clip is not None:
            self._clip.resume(stored[mine or 0])


def _reduce_then_update(rule: _Partitioned, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    buffer, parameters, gradients = bucket.buffer(), bucket.parameters(), bucket.gradients()
    future = rule.replica.hook(rule.replica.state, bucket)
    if not rule.immediate:
        return future

    def update(done: torch.futures.Future[Tensor]) -> Tensor:
        take_over(done.value(), buffer)
        rule.update(parameters, gradients)
        return buffer

    return future.then(update)


class _Layers:
    """Holds gradients back until all of a layer's are there. A layer is a module with parameters of its own."""

    def __init__(self, model: nn.Module) -> None:
        self._layer_of: dict[int, list[int]] = {}
        for module in model.modules():
            # A tied parameter is of the layer that has it first.
            own = [id(p) for p in module.parameters(recurse=False) if p.requires_grad and id(p) not in self._layer_of]
            self._layer_of |= dict.fromkeys(own, own)
        self._held: dict[int, tuple[Tensor, Tensor]] = {}
        self._lock = threading.Lock()

    def complete(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The parameters whose layer is complete with these, and their gradients."""
        with self._lock:
            self._held |= {id(p): (p, g) for p, g in zip(parameters, gradients, strict=True)}
            done = [key for key in self._held if all(other in self._held for other in self._layer_of[key])]
            complete = [self._held.pop(key) for key in done]
        return [p for p, _ in complete], [g for _, g in complete]
