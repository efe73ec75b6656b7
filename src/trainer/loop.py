"""The training loop, to be read from top to bottom."""

from __future__ import annotations

import contextlib
import logging
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import Dataset

from trainer.checkpoint import Checkpoints
from trainer.control import Control
from trainer.data.loader import evaluation_batches
from trainer.errors import Diverged
from trainer.guard import Guard
from trainer.logger.base import Metrics, Writer
from trainer.mesh import Mesh
from trainer.overlap import ablation, utilisation
from trainer.overlap.ablation import Ablation
from trainer.overlap.meter import Meter, PastStep
from trainer.overlap.metrics import gather, gather_ranks, peak_memory_mb, summarise
from trainer.overlap.record import Record
from trainer.overlap.utilisation import Utilisation
from trainer.parallel.ddp import share_buffers
from trainer.parallel.executor import Executor
from trainer.parallel.fsdp import measured
from trainer.profile.recording import Recording
from trainer.run import Run
from trainer.sync.base import Synchroniser

log = logging.getLogger(__name__)

# What ranks measure of communication.
OF_COMM = ("comm", "exchange", "exposed", "tail", "peers", "bytes")


@dataclass
class Job:
    """The live objects of one rank. `writers` is empty on all ranks but the one that writes."""

    run: Run
    mesh: Mesh
    device: torch.device
    executor: Executor
    optimizer: torch.optim.Optimizer
    synchroniser: Synchroniser
    checkpoints: Checkpoints
    control: Control
    meter: Meter
    evaluation: Dataset
    writers: list[Writer]
    numbers: Callable[[], dict[str, float]]
    """what the communication hook has measured since the last call"""
    dense_bytes: float
    """the bytes a rank would send in a step for the exact average"""
    record: Record
    ablation: Ablation | None
    guard: Guard | None
    utilisation: Utilisation
    recordings: list[Recording]
    total: int
    """the number of steps to do, counted before the random state of a checkpoint is restored: a user's data may draw"""
    done: int
    """the number of steps done"""
    close: Callable[[], None]
    """ends what the communication hook has running"""
    facts: Metrics
    """what was measured or worked out before the first step"""
    history: list[Metrics] = field(default_factory=list)
    """every set of metrics that was written, for the summary"""


def steps(job: Job, batches: Iterator[tuple[Tensor, Tensor]]) -> Iterator[None]:
    """Train to the end, or until told to stop, one step at each `next`. Raises Diverged."""
    run, meter = job.run, job.meter
    total = job.total
    groups = job.optimizer.param_groups
    rates = [group["lr"] for group in groups]
    window: list[PastStep] = []
    stop = False
    if job.facts:
        _write(job, job.done, job.facts)

    while job.done < total and not stop:
        for recording in job.recordings:
            recording.begin_step(job.done + 1)
        meter.begin_step()
        with meter.span("data"):
            inputs, targets = next(batches)
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * run.schedule.factor(job.done, total)
        loss = job.executor.forward_backward(inputs, targets)
        job.synchroniser.step()
        meter.end_step()
        if job.ablation is not None:
            job.ablation.step(job.done + 1, inputs, targets)
        job.done += 1
        done = job.done
        if job.guard is not None:
            job.guard.step(done)
        if done == total:
            job.synchroniser.finish()
        stop = job.control.step()
        last = stop or done == total

        window += _read(job)
        save = run.checkpoint.every is not None and (last or done % run.checkpoint.every == 0)
        if last or save or done % run.log.every == 0:
            # The only place where the host waits for the device.
            mean = _mean_loss(job, loss)
            if not math.isfinite(mean):
                raise Diverged(_advice(job, mean, done))
            if last or done % run.log.every == 0:
                meter.clock.anchor()
                window += _read(job)
                metrics = {"train/loss": mean, "train/lr": groups[0]["lr"], **_speed(job, done, window)}
                if job.guard is not None:
                    # Nothing is under way, so that all ranks change the hook after the same bucket.
                    with job.synchroniser.whole():
                        cosine = gather([job.guard.cosine()], job.mesh.control).mean().item()
                        metrics |= job.guard.see(done, mean, cosine, metrics.get("comm/contraction"))
                _write(job, done, metrics)
                window.clear()
        if done == total or (run.evaluate.every is not None and done % run.evaluate.every == 0):
            with _between_steps(job):
                _write(job, done, evaluate(job))
        if save:
            with _between_steps(job):
                job.checkpoints.save(done)
        yield

    job.control.leave()
    job.checkpoints.close()
    job.record.close()
    job.utilisation.close()
    for recording in job.recordings:
        recording.close()


def _mean_loss(job: Job, loss: Tensor) -> float:
    """The loss of the whole batch, on all ranks: only some compute one."""
    losses = gather([loss.item() if job.executor.has_loss else 0.0, float(job.executor.has_loss)], job.mesh.control)
    total, count = losses.sum(dim=0).tolist()
    return total / count


def _read(job: Job) -> list[PastStep]:
    steps = job.meter.read()
    for recording in job.recordings:
        recording.measured(steps)
    return steps


@contextlib.contextmanager
def _between_steps(job: Job) -> Iterator[None]:
    """Weights and buffers are whole and alike on all replicas within it."""
    with job.control.patience(), job.synchroniser.whole():
        share_buffers(job.executor.module, job.mesh.groups["data"])
        yield


@torch.no_grad()
def evaluate(job: Job) -> Metrics:
    """Mean loss and accuracy over the evaluation set, every sample once; collective."""
    module, data = job.executor.module, job.run.data
    rank, ranks = job.mesh.ranks["data"], job.mesh.sizes["data"]
    sums = torch.zeros(3, dtype=torch.float64, device=job.device)  # loss, hits, targets
    module.eval()
    for inputs, targets in evaluation_batches(
        job.evaluation,
        job.run.evaluate.batch,
        rank,
        ranks,
        data.workers,
        job.device,
        even=job.run.parallel.data.shard,
    ):
        predicted = job.executor.predict(inputs)
        if predicted is None or not len(targets):
            continue
        output = predicted.float()
        count = targets.numel()
        hits = (output.argmax(-1) == targets).sum() if output.shape[:-1] == targets.shape else sums.new_tensor(math.nan)
        loss = job.run.model.loss(output, targets) * (count if job.run.model.reduction == "mean" else 1)
        sums += torch.stack([loss, hits, sums.new_tensor(count)])
    module.train()
    loss, hits, count = gather(sums.tolist(), job.mesh.control).sum(dim=0).tolist()
    if not count:
        return {}
    return {"eval/loss": loss / count} | ({} if math.isnan(hits) else {"eval/accuracy": hits / count})


def _speed(job: Job, step: int, window: list[PastStep]) -> Metrics:
    ranks = gather_ranks(window, job.mesh.control, job.mesh.part)
    metrics = summarise(ranks)
    if job.run.parallel.data.shard and job.run.data_size > 1 and not measured(job.device):
        # What was not measured is left out: zeros would say that nothing travelled.
        metrics = {name: value for name, value in metrics.items() if not name.startswith(("overlap/", "comm/"))}
        ranks = ranks._replace(sums=[{k: v for k, v in sums.items() if k not in OF_COMM} for sums in ranks.sums])
    job.record.write(step, window, ranks)
    if job.ablation is not None:
        repeated = gather(job.ablation.numbers(), job.mesh.control).tolist()
        metrics |= ablation.compare(ranks.sums, repeated)
    metrics |= utilisation.summarise(gather(job.utilisation.numbers(), job.mesh.control).tolist())
    memory = gather([peak_memory_mb(job.device)], job.mesh.control)
    metrics |= {"memory/peak_mb": memory.mean().item(), "memory/peak_mb/worst": memory.max().item()}
    if "speed/step_ms" in metrics:
        metrics["speed/samples_per_s"] = job.run.batch.size / metrics["speed/step_ms"] * 1000
    # Stages of a pipeline differ in the sizes of their gradients, and the hook of one may have had nothing to compress.
    ranks_numbers: list[dict[str, float]] = [{} for _ in range(job.mesh.world)]
    dist.all_gather_object(ranks_numbers, job.numbers(), group=job.mesh.control)
    for name in sorted(set().union(*ranks_numbers)):
        metrics[name] = statistics.mean(numbers[name] for numbers in ranks_numbers if name in numbers)
    if metrics.get("comm/bytes_sent"):
        dense = gather([job.dense_bytes], job.mesh.control).mean().item()
        metrics["comm/compression_ratio"] = dense / metrics["comm/bytes_sent"]
    return metrics


def _write(job: Job, step: int, metrics: Metrics) -> None:
    if not job.writers:
        return
    job.history.append(metrics)
    for writer in list(job.writers):
        try:
            writer.write(step, metrics)
        except Exception as error:  # whatever a logger does, the training goes on without it
            log.warning("%s failed and is dropped: %s", type(writer).__name__.strip("_"), error)
            job.writers.remove(writer)


def _advice(job: Job, loss: float, step: int) -> str:
    job.checkpoints.wait()
    good = job.checkpoints.newest()
    resume = f"the last good checkpoint is {good}" if good else "there is no checkpoint yet"
    return (
        f"train/loss: {loss} at step {step}; {resume}; try a lower optimizer.lr, clip.max_norm=1 or a longer"
        " schedule.warmup_steps"
    )
