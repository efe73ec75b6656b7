"""No communication at all: the ceiling that hiding everything could reach."""

from typing import Any

import torch
import torch.distributed as dist

from trainer.comm.base import CommHook, Hook


class NoOp(CommHook):
    """Every rank keeps its own gradient, so replicas drift apart: for measuring, never for training."""

    @property
    def divisible(self) -> bool:
        return True

    def build(self, group: dist.ProcessGroup, timeout: Any = None) -> tuple[Any, Hook]:
        return group, noop

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return 0.0


def noop(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """A future that already holds the bucket's own buffer."""
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future(
        devices=[bucket.buffer().device] if bucket.buffer().is_cuda else None
    )
    future.set_result(bucket.buffer())
    return future
