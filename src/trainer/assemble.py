"""Build one rank's part of a run: model, replicas, optimizer, data, checkpoints, in the order of their needs."""

from __future__ import annotations

import itertools
import logging
import os
import platform
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from trainer import checkpoint_folder, generators
from trainer.checkpoint import Carrier, Checkpoints
from trainer.checkpoint_parts import cuts_of
from trainer.comm.base import HookCarrier
from trainer.control import Control
from trainer.data.loader import TrainingOrder, training_batches
from trainer.guard import Guard
from trainer.loop import Job
from trainer.mesh import Mesh
from trainer.nccl import inspection
from trainer.nccl.inspection import Links
from trainer.overlap.ablation import Ablation
from trainer.overlap.bucket_size import bucket_size
from trainer.overlap.clock import clock_for
from trainer.overlap.meter import Meter
from trainer.overlap.record import Record
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.overlap.utilisation import Utilisation
from trainer.parallel.activation_checkpointing import checkpoint_activations
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import Executor, WholeExecutor, scaler_for
from trainer.parallel.fsdp import fit, shard
from trainer.pipeline.build import Pipeline
from trainer.pipeline.build import build as build_pipeline
from trainer.resume import to_start_from
from trainer.run import Run
from trainer.spec import dump
from trainer.sync.base import Replica, Synchroniser
from trainer.tensor.axis import Axis
from trainer.tensor.check import plan_of
from trainer.tensor.share import Shared, share_out

log = logging.getLogger(__name__)


def assemble(
    run: Run,
    mesh: Mesh,
    device: torch.device,
    control: Control,
    links: Links | None = None,
) -> tuple[Job, Iterator[tuple[Tensor, Tensor]]]:
    """The job of this rank and its batches, at the state of the checkpoint that the run starts from; collective.

    `links` are what was found of the job's, which `bucket_cap_mb=auto` needs.
    """
    # A user's data may be made or split at random: alike on all ranks.
    generators.seed(run.seed)
    split = run.data.build(run.seed)
    generators.seed(run.seed)
    model = run.model.build(run.data.sample())
    meter = Meter(clock_for(device))
    shared = _share_out(run, mesh, model, meter)
    checkpoint_activations(model, run.parallel.activation_checkpointing)
    resume = to_start_from(run, mesh.control)
    manifest = {} if resume is None else checkpoint_folder.manifest_of(resume)
    pipeline = None
    if mesh.sizes["pipeline"] > 1:
        # A cut by measured times is that of the checkpoint, so that each rank goes on with what was its own.
        begins = manifest.get("begins", ())
        same = manifest.get("sizes") == mesh.sizes and run.parallel.pipeline.takes(begins)
        pipeline = build_pipeline(run, mesh, model, shared, device, meter, begins if same else ())
        model = pipeline.module
    else:
        model = model.to(device)
    if run.compile:
        for part in [model] if pipeline is None else pipeline.modules:
            part.compile()
    sharded = run.parallel.data.shard and mesh.sizes["data"] > 1
    if sharded:
        # Sums over micro-batches would be kept in this dtype as well.
        reduced = torch.bfloat16 if run.precision == "bf16" and run.batch.microbatches == 1 else None
        shard(model, mesh.groups["data"], device, reduced, meter)
    # Replicas start equal and then draw different dropout masks, as do the stages of one.
    generators.seed(run.seed + 1 + mesh.ranks["data"] + mesh.ranks["pipeline"] * mesh.sizes["data"])

    total = run.total_steps
    group, size = mesh.groups["data"], mesh.sizes["data"]
    state, hook = run.comm.build(group, run.timeout)
    timed = Timed(meter, state, hook, lambda nbytes: run.comm.bytes_sent(state, nbytes, size))
    gradient_bytes = sum(p.numel() * p.itemsize for p in model.parameters() if p.requires_grad)
    dense_bytes = 2 * (size - 1) / size * gradient_bytes
    axis = _sized(run.parallel.data, links, gradient_bytes, size)
    scaler, optimizer = scaler_for(run.precision, device, mesh.replica), run.optimizer.build(model)
    if sharded:
        fit(optimizer)
    replica = Replica(
        model=model,
        optimizer=optimizer,
        scaler=scaler,
        device=device,
        group=group,
        parts=group if sharded else mesh.replica,
        foreign=_foreign(mesh, model, shared),
        state=timed,
        hook=timed_hook,
        divisible=run.comm.divisible,
        wrap=lambda state, hook: model if sharded else replicate(model, axis, group, state, hook),
        max_norm=run.clip.max_norm,
        previous_norm=run.clip.mode == "previous_norm",
        meter=meter,
    )
    synchroniser = run.sync.attach(replica)
    executor = _executor(run, mesh, device, synchroniser, meter, scaler, shared, pipeline)
    run.comm.observe(state, meter.exchange)
    ablation = None
    if run.profile.ablation_every is not None:
        ablation = Ablation(executor, meter, device, run.profile.ablation_every)
    # The rule first: it waits for buckets under way, which change what the hook carries.
    carriers: dict[str, Carrier] = {"sync": synchroniser, "comm": HookCarrier(run.comm, state, model)}
    guard = None
    if run.sync.guard:
        levers = [lever for lever in (synchroniser.lever(), run.comm.lever(state)) if lever is not None]
        guard = Guard(levers, model, run.log.every)
        carriers["guard"] = guard
    begins = () if pipeline is None else pipeline.begins
    checkpoints = Checkpoints(
        run.checkpoints,
        run.checkpoint.keep,
        mesh,
        model,
        optimizer,
        scaler,
        carriers,
        cuts_of(model) if sharded else shared.cuts,
        "data" if sharded else "tensor",
        begins,
        "differences" if run.sync.apart else "gradients",
    )
    first_step = manifest.get("step", 0)

    recordings = run.profile.recordings(run, mesh.rank, model, meter, first_step)
    order = TrainingOrder(run.data.count(), run.batch.size, mesh.ranks["data"], size, run.seed, first_step)
    batches = training_batches(split.train, order, run.data.workers, run.data.prefetch, device)
    if not executor.has_data:
        batches = itertools.repeat((torch.empty(0), torch.empty(0)))
    if resume is not None and first_step < total:
        # DDP cuts its buckets after its first step, and a ring adds in an order that depends on the cut. One step for
        # nothing brings the buckets to what they were, so that the sums are bitwise those of an undisturbed run.
        batch = next(batches)
        executor.forward_backward(*batch)
        synchroniser.step()
        batches = itertools.chain([batch], batches)
    if resume is not None:
        with synchroniser.whole():
            checkpoints.load(resume)
        if mesh.rank == 0:
            log.info("resumed from %s after %d of %d steps", resume, first_step, total)

    writers = []
    if mesh.rank == 0:
        config = dump(run) | {"place": run.place._asdict()}
        writers = [logger.build(run.folder, config, total, first_step) for logger in run.logger.values()]

    def close() -> None:
        synchroniser.close()
        executor.close()
        run.comm.close(state)

    facts = {} if links is None else inspection.metrics(links.every)
    if isinstance(axis.bucket_cap_mb, float) and axis is not run.parallel.data:
        facts["link/bucket_cap_mb"] = axis.bucket_cap_mb
    job = Job(
        run=run,
        mesh=mesh,
        device=device,
        executor=executor,
        optimizer=optimizer,
        synchroniser=synchroniser,
        checkpoints=checkpoints,
        control=control,
        meter=meter,
        evaluation=split.evaluation,
        writers=writers,
        numbers=lambda: run.comm.numbers(state),
        close=close,
        dense_bytes=dense_bytes,
        record=Record(run.folder / "ranks.jsonl", mesh.control, _node(run), first_step, total),
        ablation=ablation,
        guard=guard,
        utilisation=Utilisation(device),
        recordings=recordings,
        total=total,
        done=first_step,
        facts=facts,
    )
    return job, batches


def _sized(axis: DataAxis, links: Links | None, gradient_bytes: int, ranks: int) -> DataAxis:
    """`axis` with the bucket size that its slowest link asks for, where it is to be worked out."""
    if axis.bucket_cap_mb != "auto" or ranks == 1 or not gradient_bytes:
        return axis
    assert links is not None, "auto has the links looked at"
    assert links.data is not None, "there are replicas"
    link = links.data
    best = bucket_size(link.alpha_s, link.bytes_per_s, gradient_bytes, ranks)
    log.info("parallel.data.bucket_cap_mb=%g: %s", best.mb, best.why)
    return axis.model_copy(update={"bucket_cap_mb": best.mb})


def _share_out(run: Run, mesh: Mesh, model: nn.Module, meter: Meter) -> Shared:
    """Share the layers of `model` out between the tensor ranks, if there are several."""
    tensor = run.parallel.tensor
    if tensor.size == 1:
        return Shared({}, run.model.loss, lambda output: output)
    axis = Axis(mesh.groups["tensor"], meter, tensor.sequence, tensor.overlap)
    return share_out(model, plan_of(model), axis, run.model.loss, run.model.has_own_loss)


def _foreign(mesh: Mesh, model: nn.Module, shared: Shared) -> frozenset[int]:
    """What all tensor ranks have alike, on all of them but the first."""
    if mesh.ranks["tensor"] == 0:
        return frozenset()
    return frozenset(id(p) for name, p in model.named_parameters() if name not in shared.cuts)


def _executor(
    run: Run,
    mesh: Mesh,
    device: torch.device,
    synchroniser: Synchroniser,
    meter: Meter,
    scaler: torch.amp.GradScaler,
    shared: Shared,
    pipeline: Pipeline | None,
) -> Executor:
    if pipeline is not None:
        rank = mesh.ranks["pipeline"]
        return pipeline.executor(run, rank, device, meter, scaler, synchroniser.module, synchroniser.complete)
    return WholeExecutor(
        synchroniser.module,
        shared.loss,
        shared.output,
        run.loss_scale,
        device,
        run.precision,
        run.batch.microbatches,
        meter,
        scaler,
        synchroniser.accumulate,
    )


def _node(run: Run) -> str:
    """The name of this machine; two nodes may share it, where they are only namespaces."""
    return platform.node() + (f", node {os.environ.get('GROUP_RANK', '?')}" if run.place.nodes > 1 else "")
