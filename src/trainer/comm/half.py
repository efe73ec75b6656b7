"""Averages in a 16-bit type, which fp16 and bf16 share."""

import threading

import torch
import torch.distributed as dist
from torch import Tensor


class Sender:
    """State of a 16-bit hook: the ranks to average over, and how many bytes this one has sent to them."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group, self._untold = group, 0.0
        # Buckets may arrive on several of Gloo's threads at once.
        self._lock = threading.Lock()

    def take_bytes(self) -> float:
        """Bytes sent since the last call."""
        with self._lock:
            taken, self._untold = self._untold, 0.0
        return taken

    def average(self, bucket: dist.GradBucket, dtype: torch.dtype) -> torch.futures.Future[Tensor]:
        """Average the bucket in `dtype`; the future holds its own buffer, in its own dtype.

        1. Scale by one over the number of ranks, in full precision, so that no sum can overflow where the mean does
        not. 2. Cast, unless its elements are as short already. 3. All-reduce. 4. Cast back. One collective needs no
        courier: torch's own future runs step 4.
        """
        size, buffer = dist.get_world_size(self.group), bucket.buffer()
        message = buffer.mul_(1 / size)
        if message.dtype.itemsize > dtype.itemsize:
            message = message.to(dtype)
        with self._lock:
            self._untold += 2 * (size - 1) / size * message.nbytes
        work = dist.all_reduce(message, group=self.group, async_op=True)
        return work.get_future().then(lambda done: buffer.copy_(done.value()[0]))
