"""`sync`: when a gradient is waited for and when a parameter is updated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainer.spec import Component

if TYPE_CHECKING:
    from trainer.overlap.meter import Meter


def _own(gradient: Tensor) -> Tensor:
    """This rank's part of a gradient, where it is shared out over the replicas."""
    # Takes over a second to import, and the launcher, which knows every rule, has no use for it.
    from torch.distributed.tensor import DTensor

    return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def take_over(average: Tensor, buffer: Tensor) -> None:
    """Have in `buffer` what a hook's future held: most average in place, but a user's may give back another tensor."""
    if average.data_ptr() != buffer.data_ptr():
        buffer.copy_(average)


@dataclass(frozen=True)
class Replica:
    """One rank's copy of the model, and what brings it together with the others."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    device: torch.device
    group: dist.ProcessGroup
    """the ranks that hold the copies; used by the hook, so nothing else may be collective on it during a step"""
    state: Any
    hook: Callable
    """the communication hook, as register_comm_hook takes it with `state`, on the meter"""
    divisible: bool
    """whether the hook may be given any stretch of the gradients, rather than whole parameters"""
    wrap: Callable[[Any, Callable], nn.Module]
    """`wrap(state, hook)` is the model as DDP with that hook, or the model itself where there is one copy"""
    parts: dist.ProcessGroup
    """the ranks that hold the other parts of this copy, where the model is cut"""
    foreign: frozenset[int]
    """ids of the parameters that another of those ranks has as well, and counts"""
    max_norm: float | None
    """the global L2 norm that gradients are clipped to"""
    previous_norm: bool
    """whether the norm that decides how much is clipped is that of the step before"""
    meter: Meter

    def clip(self) -> None:
        """Clip the gradients, which are all there, to the global norm."""
        if self.max_norm is not None:
            self.scaler.unscale_(self.optimizer)
            trained = [p for p in self.model.parameters() if p.grad is not None]
            counted = [_own(p.grad) for p in trained if p.grad is not None and id(p) not in self.foreign]
            norm = nn.utils.get_total_norm(counted)
            if dist.get_world_size(self.parts) > 1:
                square = norm.square()
                dist.all_reduce(square, group=self.parts)
                norm = square.sqrt()
            nn.utils.clip_grads_with_norm_(trained, self.max_norm, norm)

    def update(self) -> None:
        """Clip, update every parameter that has a gradient, and drop the gradients."""
        with self.meter.span("optimizer"):
            self.clip()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)


class Synchroniser:
    """A rule at work on one replica. What a rule does not say it does as strict synchronous training does."""

    def __init__(self, replica: Replica, module: nn.Module) -> None:
        self.replica = replica
        self.module = module
        """what the forward pass calls"""

    def accumulate(self) -> contextlib.AbstractContextManager[None]:
        """Within it, forward and backward passes add to the gradients and move nothing."""
        no_sync = getattr(self.module, "no_sync", contextlib.nullcontext)
        return no_sync()

    def complete(self) -> None:
        """The backward passes that follow, of forward passes that did not go through `module`, complete the gradients.

        For executors whose micro-batches overlap: all their passes before leave the replica's own gradients.
        """
        if isinstance(self.module, DistributedDataParallel) and self.module.require_backward_grad_sync:
            # As in DDP's own forward pass: after its first step it cuts its buckets in the order of the gradients.
            self.module.reducer._rebuild_buckets()
            self.module.reducer.prepare_for_backward([])

    def step(self) -> None:
        """Bring the parameters to the end of this step, as the rule understands it; no gradient is left."""
        raise NotImplementedError

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Within it weights are whole and the same on all replicas: for evaluation and checkpoints; collective."""
        yield

    def finish(self) -> None:
        """Apply whatever is still to come, after the last step of all."""

    def carried(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of this rank's state, by name; called within `whole`."""
        return {}

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        """Take over what an earlier run's ranks carried; `mine` is this rank's own, or None if their number changed.

        Called within `whole`; the model holds the whole weights of the checkpoint already. Anything that came before is
        forgotten.
        """

    def lever(self) -> Any:
        """What the guard may pull, with `ease` and `tighten`; None where nothing is traded."""
        return None

    def close(self) -> None:
        """End what the rule has running."""


class Sync(Component):
    """A rule for when parameters are updated. What it says of itself decides what it may be combined with."""

    early: ClassVar[bool] = False
    """whether it updates some parameters before the gradients of all are there"""
    late: ClassVar[bool] = False
    """whether it applies a gradient after the loss scale may have changed"""
    lazy: ClassVar[bool] = False
    """whether it waits between the layers of a forward pass"""
    apart: ClassVar[bool] = False
    """whether its replicas take steps of their own"""

    guard: bool = False
    """whether convergence is watched, and what was traded for speed is taken back, by degrees, while it suffers"""

    def attach(self, replica: Replica) -> Synchroniser:
        """Put the rule to work."""
        raise NotImplementedError
