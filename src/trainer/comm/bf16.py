"""Gradients as bfloat16: half the bytes of full precision."""

from typing import Any

import torch
import torch.distributed as dist

from trainer.comm.base import CommHook, Hook
from trainer.comm.half import reduce_as


class BF16(CommHook):
    """Scale, cast to bfloat16, average, cast back. Buckets of 16 bits already travel as they are."""

    def build(self, group: dist.ProcessGroup, timeout: Any = None) -> tuple[Any, Hook]:
        return group, bf16

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return (size - 1) / size * bucket_bytes


def bf16(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average the bucket in bfloat16."""
    return reduce_as(torch.bfloat16, group, bucket)
