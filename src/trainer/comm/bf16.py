"""Gradients as bfloat16: half the bytes of full precision, and its range."""

from typing import Any

import torch
import torch.distributed as dist

from trainer.comm.base import CommHook, Hook
from trainer.comm.half import Sender


class BF16(CommHook):
    """Scale, cast to bfloat16, average, cast back. Buckets of 16 bits already travel as they are."""

    @property
    def divisible(self) -> bool:
        return True

    def build(self, group: dist.ProcessGroup, timeout: Any = None) -> tuple[Sender, Hook]:
        return Sender(group), bf16

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return state.take_bytes()


def bf16(sender: Sender, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average the bucket in bfloat16."""
    return sender.average(bucket, torch.bfloat16)
