"""Gradients as float16: half the bytes of full precision."""

from typing import Any

import torch
import torch.distributed as dist

from trainer.comm.base import CommHook, Hook
from trainer.comm.half import reduce_as


class FP16(CommHook):
    """Scale, cast to float16, average, cast back. Buckets of 16 bits already travel as they are."""

    def build(self, group: dist.ProcessGroup, timeout: Any = None) -> tuple[Any, Hook]:
        return group, fp16

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return (size - 1) / size * bucket_bytes


def fp16(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average the bucket in float16."""
    return reduce_as(torch.float16, group, bucket)
