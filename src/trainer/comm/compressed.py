"""What all compressing hooks share: dense first, small tensors dense, error feedback, and the numbers they report."""

import datetime
import logging
import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor, nn

from trainer.comm import carry
from trainer.comm.base import CommHook, Hook
from trainer.comm.courier import Courier
from trainer.comm.easing import Exact, HookLever
from trainer.comm.hierarchy import Hierarchy, find_hierarchy
from trainer.comm.layout import Layout, Memory, Part
from trainer.comm.wire import Observer, Wire, unobserved

log = logging.getLogger(__name__)

# Norms cost a pass over the gradient each, so they are taken in every so many steps only.
MEASURE_EVERY = 10


class Codec(Protocol):
    """A compression: how one flat tensor is averaged in fewer bytes."""

    def accumulate(self, pending: Tensor, gradient: Tensor, part: Part) -> None:
        """Add this step's gradient to what is pending from earlier steps, in place."""

    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
        """Write into `mean` the mean over ranks of what they send of `pending`, where the rest of it stays.

        `mean` may be the memory of the gradient that was accumulated: long fresh tensors cost more than arithmetic.
        """


class Plain:
    """The accumulation that most codecs use."""

    def accumulate(self, pending: Tensor, gradient: Tensor, part: Part) -> None:
        pending.add_(gradient)


class Compressed(CommHook):
    """A hook that compresses. Derived classes add their options and name their codec."""

    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """the number of steps in which everything travels dense"""
    min_numel: Annotated[int, Field(ge=1)] = 1024
    """the number of elements below which a tensor travels dense, in one message a bucket"""
    error_feedback: bool = True
    """whether what was not sent is added to the next step's gradient; takes 4 bytes a parameter"""
    hierarchical: bool | Literal["auto"] = False
    """whether to average inside a node in full precision and compress between nodes only; auto where both exist"""

    @property
    def dense_steps(self) -> int:
        """The number of first steps that travel dense.

        Shards follow the bucket's cut, and what is pending in them could not follow to other ranks: in a hierarchy
        compression begins when DDP has cut its buckets for good, after its first step.
        """
        return max(self.warmup_steps, 1 if self.hierarchical else 0)

    def codec(self) -> Codec:
        """A codec of its own for one model."""
        raise NotImplementedError

    def words(self) -> str:
        """What the codec sends, for messages."""
        return type(self).__name__

    def degrees(self) -> list[tuple[str, Codec]]:
        """What the guard may put in the codec's place, one after another, each with its words; the last sends all."""
        return [("dense", Exact())]

    def lever(self, state: Any) -> HookLever:
        return HookLever(state)

    def build(
        self, group: dist.ProcessGroup, timeout: datetime.timedelta = dist.default_pg_timeout
    ) -> tuple["Compressor", Hook]:
        return Compressor(self, group, timeout), compressed

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return state.take_bytes()

    def observe(self, state: Any, observer: Observer) -> None:
        state.observer = observer

    def close(self, state: Any) -> None:
        state.close()

    def numbers(self, state: Any) -> dict[str, float]:
        return state.numbers()

    def carried(self, state: Any, module: nn.Module) -> dict[str, Tensor]:
        return carry.pack(module, state.memory, state.step, state.averaged)

    def resume(self, state: Any, module: nn.Module, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        state.restart(carry.unpack(module, state.memory, stored, mine))


class Compressor:
    """The state of `compressed`: residuals by parameter, the courier, and what is measured."""

    def __init__(self, spec: Compressed, group: dist.ProcessGroup, timeout: datetime.timedelta) -> None:
        self.spec, self.group, self.timeout = spec, group, timeout
        self.memory = Memory()
        self.step = -1
        self.codec = self._using = spec.codec()
        self._layouts: dict[int, Layout] = {}
        self._courier: Courier | None = None
        self._hierarchy: Hierarchy | None = None
        self.observer: Observer = unobserved
        self._sent_before = 0.0
        # Squared norms before and after sending, of each bucket, in the last step in which they were taken.
        self._norms: dict[int, tuple[Tensor, Tensor]] = {}
        self._step_read, self._encoded_s = -1, 0.0

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        """Hand the bucket to the courier; the future holds its averaged buffer."""
        buffer, index = bucket.buffer(), bucket.index()
        if self._courier is None:
            self._start(buffer.device)
        assert self._courier is not None
        if index == 0:
            self.step += 1
        # The codec of now: the guard may swap it, after the same bucket on all ranks, while jobs wait for their turn.
        layout, step, codec = self._layout(bucket), self.step, self.codec

        def job() -> Tensor:
            self._using = codec
            return self._reduce(buffer, layout, step)

        return self._courier.submit(f"bucket {index} of step {step}", job)

    def take_bytes(self) -> float:
        """Bytes sent since the last call."""
        sent = sum(wire.sent for wire in self._wires())
        taken, self._sent_before = sent - self._sent_before, sent
        return taken

    def numbers(self) -> dict[str, float]:
        """Contraction ||x - C(x)||^2 / ||x||^2, norm and memory of what is pending, and encoding time a step."""
        if not self._norms:
            return {}
        before, after = (torch.stack(norms).sum().item() for norms in zip(*self._norms.values(), strict=True))
        steps = max(1, self.step - self._step_read)
        numbers = {
            "comm/contraction": after / before if before else 0.0,
            "comm/residual_norm": after**0.5 if self.spec.error_feedback else 0.0,
            "comm/residual_mb": self.memory.bytes / 2**20,
            "comm/encode_ms": self._encoded_s / steps * 1000,
        }
        self._step_read, self._encoded_s = self.step, 0.0
        return numbers

    def close(self) -> None:
        if self._courier is not None:
            self._courier.close()

    @property
    def averaged(self) -> int:
        """The number of ranks over which a pending element is averaged: all, or in a hierarchy the nodes."""
        return dist.get_world_size(self.group) if self._hierarchy is None else self._hierarchy.between.size

    def restart(self, step: int) -> None:
        """Go on after `step`, with what the memory holds now."""
        self.step = self._step_read = step
        self._layouts.clear()

    def _start(self, device: torch.device) -> None:
        self._courier = Courier(self.group, device, self.timeout)
        if self.spec.hierarchical:
            self._hierarchy = find_hierarchy(self.group, self.timeout, self.spec.hierarchical)
        for wire in self._wires():
            wire.observer = self.observer

    def _wires(self) -> list[Wire]:
        assert self._courier is not None
        hierarchy = self._hierarchy
        return [self._courier.wire] + ([hierarchy.inside, hierarchy.between] if hierarchy is not None else [])

    def _layout(self, bucket: dist.GradBucket) -> Layout:
        parameters, buffer = bucket.parameters(), bucket.buffer()
        layout = self._layouts.get(bucket.index())
        if layout is None or layout.ids != [id(parameter) for parameter in parameters]:
            origin = buffer.storage_offset()
            places = [(int(g.storage_offset() - origin), g.numel()) for g in bucket.gradients()]
            layout = Layout(bucket.index(), parameters, places, self.spec.min_numel, self.memory)
            self._layouts[bucket.index()] = layout
        return layout

    def _reduce(self, buffer: Tensor, layout: Layout, step: int) -> Tensor:
        """One job: average the bucket in place.

        1. While warming up everything travels dense. 2. Small tensors always do, and with them one number that becomes
        NaN where any rank's gradient is not finite: then the bucket becomes NaN on all ranks, for the precision rule to
        see, and no residual is touched. 3. The gradient joins what is pending; in a hierarchy, after the node's own
        average. 4. The codec averages what it sends and leaves the rest pending.
        """
        wires = self._wires()
        began, waited = time.perf_counter(), sum(wire.seconds for wire in wires)
        dtype = torch.float64 if buffer.dtype == torch.float64 else torch.float32
        if step < self.spec.dense_steps or not layout.large:
            average = wires[0].average_(buffer.to(dtype), "dense average")
            return buffer if average.data_ptr() == buffer.data_ptr() else buffer.copy_(average)

        gradient = layout.take(buffer, layout.large, dtype)
        small = layout.take(buffer, layout.small, dtype) if layout.small else gradient.new_empty(0)
        dense = wires[0].average_(torch.cat([small, (gradient.sum() * 0).reshape(1)]), "average of small tensors")
        small, poison = dense[:-1], dense[-1]
        if layout.small:
            layout.give(buffer, layout.small, small)
        if self._hierarchy is None:
            mean = self._compress(gradient, slice(None), layout, step, wires[0], poison)
        else:
            between = self._hierarchy.between
            mean = self._hierarchy.average(
                gradient, lambda shard, place: self._compress(shard, place, layout, step, between, poison)
            )
        layout.give(buffer, layout.large, mean)
        self._encoded_s += time.perf_counter() - began - (sum(wire.seconds for wire in wires) - waited)
        return buffer

    def _compress(
        self, gradient: Tensor, place: slice, layout: Layout, step: int, wire: Wire, poison: Tensor
    ) -> Tensor:
        part = layout.part(place)
        kept = self.spec.error_feedback
        pending = part.flat("residual", gradient) if kept else torch.zeros_like(gradient)
        if poison.is_cuda:
            return self._compress_unseen(pending, gradient, part, step, wire, poison)
        if not poison.isfinite():
            log.warning("comm: a gradient of step %d is not finite; no residual takes it in", step)
            return gradient.fill_(torch.nan)
        return self._exchange(pending, gradient, part, step, wire)

    def _compress_unseen(
        self, pending: Tensor, gradient: Tensor, part: Part, step: int, wire: Wire, poison: Tensor
    ) -> Tensor:
        """The same without looking at `poison`, which would make the host wait for the GPU."""
        healthy, before = poison.isfinite(), pending.clone()
        mean = self._exchange(pending, torch.where(healthy, gradient, 0), part, step, wire)
        pending.copy_(torch.where(healthy, pending, before))
        return mean.add_(poison)

    def _exchange(self, pending: Tensor, gradient: Tensor, part: Part, step: int, wire: Wire) -> Tensor:
        """The mean, in the place of the gradient."""
        self._using.accumulate(pending, gradient, part)
        measured = step % MEASURE_EVERY == 0
        before = pending.dot(pending) if measured else None
        self._using.reduce(pending, gradient, part, step, wire)
        if before is not None:
            self._norms[part.layout.index] = before, pending.dot(pending)
        return gradient


def compressed(state: Compressor, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """The hook of every compressing component."""
    return state.submit(bucket)
