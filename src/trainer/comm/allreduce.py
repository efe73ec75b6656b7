"""The exact average in full precision: the reference that every other hook is compared with."""

# No future annotations here or in any other hook: DDP inspects the annotation of `bucket` and refuses a string.

from typing import Any

import torch
import torch.distributed as dist

from trainer.comm.base import CommHook, Hook


class AllReduce(CommHook):
    """Scale by one over the number of ranks, then sum over them. Bitwise what DDP does without a hook."""

    @property
    def divisible(self) -> bool:
        return True

    def build(self, group: dist.ProcessGroup, timeout: Any = None) -> tuple[Any, Hook]:
        return group, allreduce

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return 2 * (size - 1) / size * bucket_bytes


def allreduce(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average the bucket in place; the future holds its flat buffer."""
    # Multiplied, as DDP does without a hook: dividing rounds otherwise where the size is no power of two.
    buffer = bucket.buffer().mul_(1 / dist.get_world_size(group))
    work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(_first)


def _first(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]
