"""`comm`: what travels between the replicas of a model."""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from trainer.spec import Component

Hook = Callable[[Any, dist.GradBucket], Any]


class CommHook(Component):
    """A way to average a bucket of gradients over the data axis, usable in any program that has a DDP module."""

    def build(self, group: dist.ProcessGroup) -> tuple[Any, Hook]:
        """State and hook, exactly as `ddp.register_comm_hook(state, hook)` takes them, for the ranks of `group`."""
        raise NotImplementedError

    def bytes_sent(self, bucket_bytes: int, size: int) -> float:
        """Bytes that one of `size` ranks sends for a bucket of `bucket_bytes`, by the algorithm's closed form."""
        raise NotImplementedError
