"""The executor's step in DDP, with the meter or with one that does nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from scripts.bench.harness import Bare
from scripts.bench.task import Task
from trainer.data.loader import TrainingOrder, training_batches
from trainer.overlap.clock import clock_for
from trainer.overlap.meter import Meter, PastStep, Span
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import WholeExecutor, scaler_for

# Steps between readings, as by default.
LOG_EVERY = 10


class _Blind(Meter):
    """Marks nothing."""

    def begin_step(self) -> None:
        """Not seen."""

    def end_step(self) -> None:
        """Not seen."""

    @contextlib.contextmanager
    def span(self, lane: str, name: str = "") -> Iterator[Span]:
        yield Span(lane, None)

    def read(self) -> list[PastStep]:
        return []


def build(task: Task, metered: bool = True) -> Bare:
    run, group, device = task.run, task.group, task.device
    model = task.model().to(device)
    meter: Meter = (Meter if metered else _Blind)(clock_for(device))
    state: Any
    state, hook = run.comm.build(group, run.timeout)
    if metered:
        state, hook = Timed(meter, state, hook, lambda nbytes: run.comm.bytes_sent(state, nbytes, 2)), timed_hook
    module = replicate(model, run.parallel.data, group, state, hook)
    optimizer, scaler = run.optimizer.build(model), scaler_for(run.precision, device)
    executor = WholeExecutor(
        module,
        run.model.loss,
        lambda output: output,
        1.0,
        device,
        run.precision,
        1,
        meter,
        scaler,
        contextlib.nullcontext,
    )
    order = TrainingOrder(run.data.count(), run.batch.size, task.mesh.ranks["data"], run.data_size, run.seed, 0)
    batches = training_batches(task.dataset(), order, 0, 0, device)

    def step() -> None:
        meter.begin_step()
        with meter.span("data"):
            batch = next(batches)
        executor.forward_backward(*batch)
        with meter.span("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        meter.end_step()
        meter.read()

    return Bare(step)
