"""Apply the gradient of some steps ago while the newest one travels."""

# No future annotations: DDP inspects the annotation of `bucket` and refuses a string.

import collections
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainer.spec import ConfigError
from trainer.sync.base import Replica, Sync, Synchroniser, take_over
from trainer.sync.buffers import SharedBuffers

if TYPE_CHECKING:
    from trainer.run import Run


class Delayed(Sync):
    """Delayed updates (as in PipeDream-2BW, Narayanan et al. 2021, and ZeRO-Offload, Ren et al. 2021).

    x(t+1) = x(t) - lr U(g(x(t - steps))). Communication has whole steps to hide behind. It is another algorithm: on a
    quadratic, lr times curvature must stay below 1.0 for one step of delay and 0.62 for two, where 2.0 would do
    without, and momentum tightens that further. Evaluation and checkpoints see the weights as they are; the gradients
    under way are in the checkpoint, and are applied after the last step of all.
    """

    late: ClassVar[bool] = True

    guard: bool = True
    """whether convergence is watched, and the delay is shortened while it suffers"""

    steps: Annotated[int, Field(ge=1)] = 1
    """the number of steps between computing a gradient and applying it"""
    warmup_steps: Annotated[int, Field(ge=0)] = 40
    """the number of first steps without delay"""

    def check(self, run: "Run") -> None:
        if run.steps is None and run.epochs is None:
            return  # refused by the run itself
        if self.warmup_steps + self.steps >= run.total_steps:
            raise ConfigError(
                f"sync.steps: the delay begins after {self.warmup_steps} steps of warm-up and the run has"
                f" {run.total_steps}, so next to nothing would be delayed; lower sync.warmup_steps, or use sync=strict"
            )

    def attach(self, replica: Replica) -> Synchroniser:
        return _Delayed(replica, self)


class _Bucket(NamedTuple):
    parameters: list[Tensor]
    gradients: list[Tensor]
    buffer: Tensor
    future: torch.futures.Future[Tensor]

    def arrive(self) -> None:
        """Wait for the average; it is in `gradients` then."""
        take_over(self.future.wait(), self.buffer)


class _Delayed(Synchroniser):
    def __init__(self, replica: Replica, spec: Delayed) -> None:
        super().__init__(replica, replica.model)
        self.delay = self._most = spec.steps
        self.warmup_steps = spec.warmup_steps
        self._steps = 0
        self._computed: list[_Bucket] = []
        """of the present step"""
        self._pending: collections.deque[list[_Bucket]] = collections.deque()
        """of the steps before, the oldest first"""
        self.module = replica.wrap(self, _send_a_copy)
        self._buffers: SharedBuffers | None = None
        if isinstance(self.module, DistributedDataParallel):
            self._buffers = SharedBuffers(replica.model, replica.group, replica.meter)
            self._buffers.replace_those_of(self.module)

    def step(self) -> None:
        if self._buffers is None:
            self._computed = [_alone(self.replica.model)]
        self._pending.append(self._computed)
        self._computed = []
        self._steps += 1
        delay = self.delay if self._steps > self.warmup_steps else 0
        while len(self._pending) > delay:
            self._apply(self._pending.popleft())
        self.replica.optimizer.zero_grad(set_to_none=True)

    @contextmanager
    def whole(self) -> Iterator[None]:
        if self._buffers is not None:
            self._buffers.land()
        yield

    def finish(self) -> None:
        while self._pending:
            self._apply(self._pending.popleft())
        if self._buffers is not None:
            self._buffers.land()

    def lever(self) -> Any:
        return self

    def ease(self) -> str | None:
        return self._move(-1)

    def tighten(self) -> str | None:
        return self._move(1)

    def _move(self, by: int) -> str | None:
        if not 0 <= self.delay + by <= self._most:
            return None
        self.delay += by
        return f"sync.steps {self.delay - by} -> {self.delay}"

    def carried(self) -> dict[str, Tensor]:
        names = {id(p): name for name, p in self.replica.model.named_parameters()}
        state = {"steps": torch.tensor(self._steps)}
        for age, step in enumerate(reversed(self._pending)):
            for bucket in step:
                bucket.arrive()
                pairs = zip(bucket.parameters, bucket.gradients, strict=True)
                state |= {f"pending{age}/{names[id(p)]}": gradient for p, gradient in pairs}
        return state

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        # Averaged gradients are the same on all ranks.
        source = stored[mine or 0]
        self._steps = int(source.get("steps", 0))
        self._computed, self._pending = [], collections.deque()
        ages = sorted({key.partition("/")[0] for key in source if key.startswith("pending")}, reverse=True)
        for age in ages:
            pairs = [
                (p, source[f"{age}/{name}"].to(self.replica.device))
                for name, p in self.replica.model.named_parameters()
                if f"{age}/{name}" in source
            ]
            self._pending.append([_arrived([p for p, _ in pairs], [gradient for _, gradient in pairs])])

    def compute(self, bucket: _Bucket) -> None:
        self._computed.append(bucket)

    def _apply(self, step: list[_Bucket]) -> None:
        with self.replica.meter.span("wait", "gradients"):
            for bucket in step:
                bucket.arrive()
        for bucket in step:
            for parameter, gradient in zip(bucket.parameters, bucket.gradients, strict=True):
                parameter.grad = gradient
        self.replica.update()


def _send_a_copy(rule: _Delayed, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """DDP gets its bucket back at once; what travels is a copy, since the bucket is filled anew in the next step."""
    own = bucket.buffer()
    bucket.set_buffer(own.clone())
    future = rule.replica.hook(rule.replica.state, bucket)
    rule.compute(_Bucket(bucket.parameters(), bucket.gradients(), bucket.buffer(), future))
    return _done(own)


def _alone(model: nn.Module) -> _Bucket:
    """The gradients of a model that has no other copies."""
    pairs = [(p, p.grad) for p in model.parameters() if p.grad is not None]
    return _arrived([p for p, _ in pairs], [gradient for _, gradient in pairs])


def _arrived(parameters: list[Tensor], gradients: list[Tensor]) -> _Bucket:
    nothing = torch.empty(0)
    return _Bucket(parameters, gradients, nothing, _done(nothing))


def _done(value: Tensor) -> torch.futures.Future[Tensor]:
    future: torch.futures.Future[Tensor] = torch.futures.Future(devices=[value.device] if value.is_cuda else None)
    future.set_result(value)
    return future
