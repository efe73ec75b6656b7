"""One-way channels between neighbours in a pipeline: what is sent never waits, and what comes is awaited early.

The channels of one direction have a process group of their own: messages of one direction can then neither overtake
those of the other nor stand in their way, on Gloo as on NCCL, where what two ranks exchange in a group is one queue.
"""

from __future__ import annotations

import collections
import queue
import threading
from collections.abc import Hashable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.overlap.meter import Meter, Span

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
DIMS = 8


class ChannelError(RuntimeError):
    """A neighbour is gone, or speaks of something else."""


class Sender:
    """The sending end: `send` returns at once, and a thread (on a GPU, a stream) sees to the end of each message."""

    def __init__(self, group: dist.ProcessGroup, peer: int, device: torch.device, meter: Meter, lane: str) -> None:
        self.group, self.peer, self.device, self.meter, self.lane = group, peer, device, meter, lane
        self._error: BaseException | None = None
        self._under_way: queue.Queue[tuple[dist.Work, Tensor, Span | None] | None] = queue.Queue()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._thread = threading.Thread(target=self._see_off, name=lane, daemon=True)
        self._thread.start()

    def send(self, tensor: Tensor, name: str, described: bool) -> None:
        """Send a tensor, `described` if the receiver does not know its shape. It must not change until it is sent."""
        if self._error is not None:
            raise ChannelError(f"rank {self.peer} is gone: {self._error}") from self._error
        tensor = tensor.detach().contiguous()
        if described:
            self._send(describe(tensor), None)
        span = self.meter.begin(self.lane, name)
        span.size = span.bytes = tensor.nbytes
        self._send(tensor, span)

    def drain(self) -> None:
        """Wait until everything is sent."""
        self._under_way.join()

    def close(self) -> None:
        self._under_way.put(None)
        self._thread.join()

    def _send(self, tensor: Tensor, span: Span | None) -> None:
        try:
            work = dist.isend(tensor, self.peer, group=self.group)
        except RuntimeError as error:
            raise ChannelError(f"rank {self.peer} is gone: {error}") from error
        assert work is not None, "this rank is a member of the group"
        if self._stream is not None:
            # Its memory is the sending's until the stream that sees to it is past it.
            tensor.record_stream(self._stream)
        self._under_way.put((work, tensor, span))

    def _see_off(self) -> None:
        while (message := self._under_way.get()) is not None:
            work, _, span = message
            try:
                if self._stream is None:
                    work.wait()
                    mark = self.meter.clock.mark()
                else:
                    with torch.cuda.stream(self._stream):
                        work.wait()
                        mark = self.meter.clock.mark()
            except RuntimeError as error:
                self._error, mark = error, self.meter.clock.mark()
            if span is not None:
                span.end = mark
            self._under_way.task_done()
            # Or the tensor would live until the next message.
            del message, work, span, _


class Receiver:
    """The receiving end: it is told what will come in a step, and keeps buffers ready for the next few messages."""

    # The next message must have a place to go while the one before it is worked on; more would only hold memory.
    AHEAD = 3

    def __init__(self, group: dist.ProcessGroup, peer: int, device: torch.device) -> None:
        self.group, self.peer, self.device = group, peer, device
        self._shapes: dict[Hashable, tuple[torch.Size, torch.dtype]] = {}
        self._coming: collections.deque[tuple[Hashable, Hashable]] = collections.deque()
        self._posted: collections.deque[tuple[Hashable, Tensor, dist.Work]] = collections.deque()
        self._arrived: dict[Hashable, Tensor] = {}

    def know(self, kind: Hashable, like: Tensor) -> None:
        """All messages of `kind` look like this; of a kind that is not known, the first one is described."""
        self._shapes[kind] = (like.shape, like.dtype)

    def expect(self, messages: Sequence[tuple[Hashable, Hashable]]) -> None:
        """What comes next, as (kind, name), in the order in which it is sent; names are used once until taken."""
        self._coming.extend(messages)
        self._post()

    def take(self, name: Hashable) -> Tensor:
        """Wait for the message `name`."""
        self._post()
        while name not in self._arrived:
            if not self._posted:
                self._shapes[self._coming[0][0]] = self._description()
                self._post()
            arriving, buffer, work = self._posted.popleft()
            self._wait(work)
            self._arrived[arriving] = buffer
            self._post()
        return self._arrived.pop(name)

    def take_described(self) -> Tensor:
        """Wait for a message that describes itself, while nothing else is expected."""
        return self._take_now(*self._description())

    def _post(self) -> None:
        while self._coming and len(self._posted) < self.AHEAD and self._coming[0][0] in self._shapes:
            kind, name = self._coming.popleft()
            shape, dtype = self._shapes[kind]
            buffer = torch.empty(shape, dtype=dtype, device=self.device)
            self._posted.append((name, buffer, self._receive(buffer)))

    def _description(self) -> tuple[torch.Size, torch.dtype]:
        return understand(self._take_now(torch.Size([DIMS + 2]), torch.int64))

    def _take_now(self, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        buffer = torch.empty(shape, dtype=dtype, device=self.device)
        self._wait(self._receive(buffer))
        return buffer

    def _receive(self, buffer: Tensor) -> dist.Work:
        try:
            work = dist.irecv(buffer, self.peer, group=self.group)
        except RuntimeError as error:
            raise ChannelError(f"rank {self.peer} is gone: {error}") from error
        assert work is not None, "this rank is a member of the group"
        return work

    def _wait(self, work: dist.Work) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            raise ChannelError(f"nothing came from rank {self.peer}: {error}") from error


def describe(tensor: Tensor) -> Tensor:
    """Shape and dtype as a message of fixed size."""
    if tensor.dtype not in DTYPES or tensor.ndim > DIMS:
        raise ChannelError(
            f"a {tensor.dtype} tensor of {tensor.ndim} dims cannot travel between stages, only real numbers in up to"
            f" {DIMS} dims; cut elsewhere with parallel.pipeline.split"
        )
    shape = [*tensor.shape, *[0] * (DIMS - tensor.ndim)]
    return torch.tensor([DTYPES.index(tensor.dtype), tensor.ndim, *shape], device=tensor.device)


def understand(description: Tensor) -> tuple[torch.Size, torch.dtype]:
    """What `describe` has told."""
    dtype, dims, *shape = description.tolist()
    return torch.Size(shape[:dims]), DTYPES[dtype]
