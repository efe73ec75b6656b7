"""Buffers, such as the running means of batch norm: before each forward pass all replicas take the first one's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn


class SharedBuffers:
    """What DDP does with them, on a group of its own, since another thread may use the replicas' group meanwhile."""

    def __init__(self, model: nn.Module, group: dist.ProcessGroup) -> None:
        self.model = model
        ranks = dist.get_process_group_ranks(group)
        self._first = ranks[0]
        own = dist.new_group(
            ranks, backend=dist.get_backend(group), use_local_synchronization=True, group_desc="buffers"
        )
        assert isinstance(own, dist.ProcessGroup), "this rank is a member of the group"
        self._group = own

    def share(self) -> None:
        """Collective over the replicas; nothing travels where the model has no buffers."""
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for buffer in self.model.buffers():
            kinds.setdefault(buffer.dtype, []).append(buffer.detach())
        for buffers in kinds.values():
            self.broadcast(buffers)

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Give the first replica's `tensors`, of one dtype, to all, in one message."""
        message = torch.cat([tensor.flatten() for tensor in tensors])
        dist.broadcast(message, self._first, group=self._group)
        parts = message.split([tensor.numel() for tensor in tensors])
        torch._foreach_copy_(list(tensors), [part.view_as(t) for part, t in zip(parts, tensors, strict=True)])
