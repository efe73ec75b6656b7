"""Averages in a 16-bit type, which fp16 and bf16 share."""

import torch
import torch.distributed as dist
from torch import Tensor


def reduce_as(dtype: torch.dtype, group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Average the bucket in `dtype`; the future holds its own buffer, in its own dtype.

    1. Scale by one over the number of ranks, in full precision, so that no sum can overflow where the mean does not.
    2. Cast. 3. All-reduce. 4. Cast back. One collective needs no courier: torch's own future runs step 4.
    """
    buffer = bucket.buffer()
    if buffer.dtype.itemsize <= dtype.itemsize:
        message = buffer.mul_(1 / dist.get_world_size(group))
    else:
        message = buffer.mul_(1 / dist.get_world_size(group)).to(dtype)
    work = dist.all_reduce(message, group=group, async_op=True)
    return work.get_future().then(lambda done: buffer.copy_(done.value()[0]))
