"""The exchanges of one process group: counted in bytes, timed, and named while they wait."""

import contextlib
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor

# The newer name of the same collective; the older one warns.
_all_gather = dist.all_gather_single if hasattr(dist, "all_gather_single") else dist.all_gather_into_tensor


Observer = Callable[[str, float], contextlib.AbstractContextManager[None]]
"""(phase, bytes sent) -> the context that an exchange runs in"""


def unobserved(phase: str, sent: float) -> contextlib.AbstractContextManager[None]:
    """Nobody looks."""
    return contextlib.nullcontext()


class Wire:
    """Blocking collectives over one group, for the straight-line code of a courier's job.

    On a GPU they are enqueued on the current stream and block nothing; `seconds` then holds the time to enqueue.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group, self.rank, self.size = group, dist.get_rank(group), dist.get_world_size(group)
        self.phase = ""
        """what is being exchanged just now, for messages"""
        self.sent = 0.0
        """bytes this rank has sent so far"""
        self.seconds = 0.0
        """time spent in exchanges so far"""
        self.observer: Observer = unobserved

    def average_(self, flat: Tensor, phase: str) -> Tensor:
        """Replace `flat` by its mean over the ranks: a ring all-reduce of 2 (N - 1) / N times its bytes."""
        flat.mul_(1 / self.size)
        with self._exchange(phase, 2 * (self.size - 1) / self.size * flat.nbytes):
            dist.all_reduce(flat, group=self.group)
        return flat

    def swap(self, messages: Tensor, phase: str) -> Tensor:
        """Send row j of `messages` (N, …) to rank j and return what the ranks sent here, in their order."""
        received = torch.empty_like(messages)
        with self._exchange(phase, (self.size - 1) / self.size * messages.nbytes):
            dist.all_to_all_single(received, messages, group=self.group)
        return received

    def gather(self, message: Tensor, phase: str) -> Tensor:
        """The messages of all ranks, (N, …) in their order: N - 1 times the bytes of one."""
        everyones = message.new_empty((self.size, *message.shape))
        with self._exchange(phase, (self.size - 1) * message.nbytes):
            if message.is_cuda:
                _all_gather(everyones.view(-1), message.flatten(), group=self.group)
            else:
                self._gather_pairwise(everyones, message)
        return everyones

    def _gather_pairwise(self, everyones: Tensor, message: Tensor) -> None:
        """Gloo's all-gather sends and receives by turns, which takes two ranks twice the time of this."""
        everyones[self.rank] = message
        works: list[dist.Work | None] = []
        for distance in range(1, self.size):
            source, target = (self.rank - distance) % self.size, (self.rank + distance) % self.size
            works.append(dist.irecv(everyones[source], group=self.group, group_src=source))
            works.append(dist.isend(message, group=self.group, group_dst=target))
        for work in works:
            assert work is not None, "this rank is a member of the group"
            work.wait()

    @contextlib.contextmanager
    def _exchange(self, phase: str, sent: float) -> Iterator[None]:
        self.phase = phase
        began = time.perf_counter()
        with self.observer(phase, sent):
            yield
        self.seconds += time.perf_counter() - began
        self.sent += sent
