"""The exchanges of one process group: counted in bytes, timed, and named while they wait."""

import contextlib
import time
from collections.abc import Callable, Sequence

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
    """Exchanges over one group, for the straight-line code of a courier's job.

    On a GPU they are enqueued on the current stream and block nothing; `seconds` then holds the time to enqueue.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group, self.rank, self.size = group, dist.get_rank(group), dist.get_world_size(group)
        self.phase = ""
        """what is waited for just now, for messages"""
        self.sent = 0.0
        """bytes this rank has sent so far"""
        self.seconds = 0.0
        """time spent waiting for exchanges so far"""
        self.observer: Observer = unobserved

    def average_(self, flat: Tensor, phase: str) -> Tensor:
        """Replace `flat` by its mean over the ranks: a ring all-reduce of 2 (N - 1) / N times its bytes."""
        work = dist.all_reduce(flat.mul_(1 / self.size), group=self.group, async_op=True)
        return Exchange(self, phase, 2 * (self.size - 1) / self.size * flat.nbytes, [work], flat).wait()

    def swap(self, messages: Tensor, phase: str) -> Tensor:
        """Send row j of `messages` (N, …) to rank j and return what the ranks sent here, in their order."""
        received = self.start_swap(messages, phase).wait()
        received[self.rank] = messages[self.rank]
        return received

    def gather(self, message: Tensor, phase: str) -> Tensor:
        """The messages of all ranks, (N, …) in their order: N - 1 times the bytes of one."""
        return self.start_gather(message, phase).wait()

    def start_swap(self, messages: Tensor, phase: str) -> "Exchange":
        """`swap` without this rank's own row, to be waited for later; until then `messages` must stay as it is."""
        received = torch.empty_like(messages)
        if messages.is_cuda:
            works = [dist.all_to_all_single(received, messages, group=self.group, async_op=True)]
        else:
            works = self._pairwise(messages, received)
        return Exchange(self, phase, (self.size - 1) / self.size * messages.nbytes, works, received)

    def start_gather(self, message: Tensor, phase: str) -> "Exchange":
        """`gather`, to be waited for later; until then `message` must stay as it is."""
        everyones = message.new_empty((self.size, *message.shape))
        if message.is_cuda:
            works = [_all_gather(everyones.view(-1), message.flatten(), group=self.group, async_op=True)]
        else:
            everyones[self.rank] = message
            works = self._pairwise(message.expand(everyones.shape), everyones)
        return Exchange(self, phase, (self.size - 1) * message.nbytes, works, everyones)

    def _pairwise(self, outgoing: Tensor, incoming: Tensor) -> list[dist.Work | None]:
        """Send row j to rank j, and receive from all others at the same time.

        Gloo's all-gather sends and receives by turns, which takes two ranks twice the time of this; its threads run no
        more than two collectives at once, while these are all under way, in order.
        """
        works: list[dist.Work | None] = []
        for distance in range(1, self.size):
            source, target = (self.rank - distance) % self.size, (self.rank + distance) % self.size
            # Gloo sends nothing that nobody waits for: the receiver's word must not queue behind its own sending.
            works.append(dist.irecv(incoming[source], group=self.group, group_src=source))
            works.append(dist.isend(outgoing[target], group=self.group, group_dst=target))
        return works


class Exchange:
    """Messages under way."""

    def __init__(
        self, wire: Wire, phase: str, sent: float, works: Sequence[dist.Work | None], arriving: Tensor
    ) -> None:
        self._wire, self._phase, self._works, self._arriving = wire, phase, works, arriving
        self._observed = contextlib.ExitStack()
        self._observed.enter_context(wire.observer(phase, sent))
        wire.sent += sent

    def wait(self) -> Tensor:
        """What arrives, once all of it has."""
        self._wire.phase = self._phase
        began = time.perf_counter()
        with self._observed:
            for work in self._works:
                assert work is not None, "this rank is a member of the group"
                work.wait()
        self._wire.seconds += time.perf_counter() - began
        return self._arriving
