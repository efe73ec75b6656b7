"""What a hook computes for one bucket, without its network: encode and decode, as one function for each hook."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.comm.base import CommHook
from trainer.comm.compressed import Compressed
from trainer.comm.layout import Layout, Memory
from trainer.comm.wire import Exchange, Wire, unobserved

# Different gradients take turns, so that what is pending behaves as in training.
GRADIENTS = 4


class Echo(Wire):
    """The wire of two ranks of which the other says what this one says, at once."""

    def __init__(self) -> None:
        self.group: Any = None
        self.rank, self.size, self.phase, self.sent, self.seconds = 0, 2, "", 0.0, 0.0
        self.observer = unobserved

    def average_(self, flat: Tensor, phase: str) -> Tensor:
        return flat.mul_(1 / self.size).mul_(self.size)

    def start_swap(self, messages: Tensor, phase: str) -> Exchange:
        return Exchange(self, phase, 0.0, [], messages)

    def start_gather(self, message: Tensor, phase: str) -> Exchange:
        return Exchange(self, phase, 0.0, [], torch.stack([message] * self.size))


class Bucket:
    """A bucket for hooks that look at nothing but its buffer."""

    def __init__(self, flat: Tensor) -> None:
        self._flat = flat

    def buffer(self) -> Tensor:
        return self._flat


def work(spec: CommHook, shapes: Sequence[tuple[int, ...]], group: dist.ProcessGroup) -> Callable[[], object]:
    """A function that compresses and decompresses one bucket of these shapes; `group` is of this process alone.

    With error feedback, as hooks have it by default: adding the gradient to what is pending, and what stays, count.
    """
    gradients = [torch.randn(sum(map(math.prod, shapes))) * 1e-3 for _ in range(GRADIENTS)]
    if not isinstance(spec, Compressed):
        # One cast each way around one collective, which for a single rank moves nothing.
        state, hook = spec.build(group)
        return lambda: hook(state, Bucket(gradients[0])).wait()  # type: ignore[arg-type]
    parameters = [torch.empty(shape) for shape in shapes]
    starts = itertools.accumulate((p.numel() for p in parameters), initial=0)
    places = [(start, p.numel()) for start, p in zip(starts, parameters, strict=False)]
    layout = Layout(index=0, parameters=parameters, places=places, min_numel=spec.min_numel, memory=Memory())
    part = layout.part(slice(None))
    codec, wire, counter = spec.codec(), Echo(), itertools.count()
    pending, mean = part.flat("residual", gradients[0]), torch.empty_like(gradients[0])

    def reduce() -> None:
        step = next(counter)
        codec.accumulate(pending, gradients[step % GRADIENTS], part)
        codec.reduce(pending, mean, part, step, wire)

    return reduce
