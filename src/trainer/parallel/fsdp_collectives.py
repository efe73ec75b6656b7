"""What fully_shard sends on a CPU, on the meter: parameters that are gathered, gradients that are shared out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

if TYPE_CHECKING:
    from trainer.overlap.meter import Meter, Span

# Its older name warns where there is the newer one.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class _Measured:
    """Spans of the collectives of one group of parameters, in training; an evaluation belongs to no step."""

    def __init__(self, meter: Meter, model: nn.Module, name: str) -> None:
        self.meter, self.model, self.name = meter, model, name

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def begin(self, whole: Tensor, group: dist.ProcessGroup) -> Span | None:
        """`whole` holds what all ranks have or get; each sends all others its part, or theirs."""
        if not self.model.training:
            return None
        span = self.meter.begin("comm", self.name)
        size = dist.get_world_size(group)
        span.size, span.bytes = whole.nbytes, whole.nbytes * (size - 1) / size
        return span

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """The training thread, or autograd's, computes nothing within it."""
        with self.meter.span("wait", self.name) if self.model.training else contextlib.nullcontext():
            yield


class AwaitedAllGather(_Measured, AllGather):
    """Gathers a group of parameters beside computation; what comes back is waited for where they are used."""

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> dist.Work | None:
        span = self.begin(output_tensor, group)
        work = _all_gather(output_tensor, input_tensor, group=group, async_op=True)
        assert work is not None, "it was asked not to wait"
        if span is not None:
            work.get_future().add_done_callback(lambda _: setattr(span, "end", self.meter.clock.mark()))
        awaited = _Awaited(work, self)
        if async_op:
            return awaited
        awaited.wait()
        return None


class _Awaited(dist.Work):
    """A collective under way, of which the wait is measured."""

    def __init__(self, work: dist.Work, measured: _Measured) -> None:
        super().__init__()
        self._work, self._measured = work, measured

    def wait(self, *timeout: Any) -> bool:
        with self._measured.waiting():
            return self._work.wait(*timeout)


class AwaitedReduceScatter(_Measured, ReduceScatter):
    """Averages a group of gradients, of which each rank keeps its part; the backward pass waits for it.

    Gloo's own reduce-scatter sends everything everywhere. Here each rank sends every other its part, and adds up in the
    order of the ranks, in fp32 at least.
    """

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        size = dist.get_world_size(group)
        assert op in (dist.ReduceOp.AVG, dist.ReduceOp.SUM), "all that fully_shard asks for"
        parts = torch.empty_like(input_tensor)
        span = self.begin(input_tensor, group)
        with self.waiting():
            # Not at once, since a profiler would take the time within the call for computing.
            work = dist.all_to_all_single(parts, input_tensor, group=group, async_op=True)
            assert work is not None, "it was asked not to wait"
            work.wait()
        if span is not None:
            span.end = self.meter.clock.mark()
        exact = torch.promote_types(input_tensor.dtype, torch.float32)
        total = parts.view(size, -1).sum(dim=0, dtype=exact)
        output_tensor.copy_(total / size if op == dist.ReduceOp.AVG else total)
        return None
