"""Buffers, such as the running means of batch norm: before each forward pass all replicas take the first one's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from trainer.overlap.meter import Meter


class _Message(NamedTuple):
    """Buffers of one dtype, on their way from the first replica to all."""

    buffers: list[Tensor]
    values: Tensor
    work: dist.Work


class SharedBuffers:
    """What DDP does with them, on a group of its own: gradients may be under way on the replicas' group meanwhile."""

    def __init__(self, model: nn.Module, group: dist.ProcessGroup, meter: Meter) -> None:
        self.model, self.meter = model, meter
        ranks = dist.get_process_group_ranks(group)
        self._first = ranks[0]
        own = dist.new_group(
            ranks, backend=dist.get_backend(group), use_local_synchronization=True, group_desc="buffers"
        )
        assert isinstance(own, dist.ProcessGroup), "this rank is a member of the group"
        self._group = own
        self._messages: list[_Message] = []

    def share(self) -> None:
        """Collective over the replicas; nothing travels where the model has no buffers."""
        self.send()
        self.land()

    def send(self) -> None:
        """Begin to share, after a forward pass: while the backward pass computes there is time for it. Collective."""
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for buffer in self.model.buffers():
            kinds.setdefault(buffer.dtype, []).append(buffer.detach())
        self._messages += [self._sent(buffers) for buffers in kinds.values()]

    def land(self) -> None:
        """Have what was sent in the buffers, before anybody reads or changes them."""
        if self._messages:
            with self.meter.span("wait", "buffers"):
                for message in self._messages:
                    self._arrive(message)
            self._messages.clear()

    def replace_those_of(self, wrapped: DistributedDataParallel) -> None:
        """Share them at the same passes in place of DDP, whose broadcast waits behind all gradients under way."""
        wrapped.broadcast_buffers = False
        wrapped.register_forward_pre_hook(self._before_forward)
        wrapped.register_forward_hook(self._after_forward)

    def _before_forward(self, *_: Any) -> None:
        if torch.is_grad_enabled():
            self.land()

    def _after_forward(self, wrapped: DistributedDataParallel, *_: Any) -> None:
        if torch.is_grad_enabled() and wrapped.require_backward_grad_sync:
            self.send()

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Give the first replica's `tensors`, of one dtype, to all, in one message."""
        self._arrive(self._sent(tensors))

    def _sent(self, tensors: Sequence[Tensor]) -> _Message:
        values = torch.cat([tensor.flatten() for tensor in tensors])
        work = dist.broadcast(values, self._first, group=self._group, async_op=True)
        assert work is not None, "this rank is a member of the group"
        return _Message(list(tensors), values, work)

    def _arrive(self, message: _Message) -> None:
        message.work.wait()
        if dist.get_rank() == self._first:
            # They are its own, and it may have changed them since: recomputed activations run batch norm once more.
            return
        parts = message.values.split([tensor.numel() for tensor in message.buffers])
        torch._foreach_copy_(message.buffers, [part.view_as(t) for part, t in zip(parts, message.buffers, strict=True)])
