"""One worker: join the others, build everything, train, leave."""

from __future__ import annotations

import itertools
import logging
import os
import random
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from trainer import checkpoint_folder, meeting
from trainer.checkpoint import Checkpoints
from trainer.control import Control
from trainer.data.loader import TrainingOrder, training_batches
from trainer.loop import Job, train
from trainer.mesh import Mesh
from trainer.overlap.clock import clock_for
from trainer.overlap.meter import Meter
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import Executor
from trainer.run import Run
from trainer.spec import dump
from trainer.summary import print_summary

log = logging.getLogger(__name__)

# Seconds a rank that lost a peer waits to be ended with the others, so that the peer's failure is the one reported.
LOST_PEER_S = 5.0


@record
def main(run: Run) -> int:
    """Run this process's part of `run`; the number of steps done. Exits with 128 + n after signal n stopped it."""
    device = _device()
    torch.set_num_threads(_threads(run))
    folder = Path(meeting.join(str(run.folder), device, run.timeout))
    run = run.model_copy(update={"folder": folder})
    _log_to(folder / "logs", dist.get_rank())
    mesh = Mesh.join(run.parallel.sizes(run.place.world), device, run.timeout)
    control = Control(mesh.control)
    try:
        done = _train(run, mesh, device, control)
        if control.stopped_by:
            # Returning would leave this process waiting for an agent that waits for it to end.
            sys.exit(128 + control.stopped_by)
        return done
    except RuntimeError as error:
        if "onnection" in str(error) and control.told_within(LOST_PEER_S):
            sys.exit(1)
        raise
    finally:
        if sys.exc_info()[0] is None:
            dist.destroy_process_group()


def _train(run: Run, mesh: Mesh, device: torch.device, control: Control) -> int:
    # A user's data may be made or split at random: alike on all ranks.
    _seed(run.seed)
    split = run.data.build(run.seed)
    _seed(run.seed)
    model = run.model.build(run.data.sample()).to(device)
    if run.compile:
        model.compile()
    # Replicas start equal and then draw different dropout masks.
    _seed(run.seed + 1 + mesh.ranks["data"])

    meter = Meter(clock_for(device))
    group, size = mesh.groups["data"], mesh.sizes["data"]
    state, hook = run.comm.build(group)
    timed = Timed(meter, state, hook, lambda bytes: run.comm.bytes_sent(bytes, size))
    module = replicate(model, run.parallel.data, group, timed, timed_hook)
    optimizer = run.optimizer.build(model)
    executor = Executor(module, run.model.loss, device, run.precision, run.batch.microbatches, meter)
    synchroniser = run.sync.attach(model, optimizer, executor.scaler, run.clip.max_norm)
    checkpoints = Checkpoints(run.checkpoints, run.checkpoint.keep, mesh, model, optimizer, executor.scaler)

    resume = checkpoints.newest() if meeting.restarts() else None
    if resume is None and run.checkpoint.resume is not None:
        resume = Path(run.checkpoint.resume)
    first_step = 0 if resume is None else checkpoint_folder.manifest_of(resume)["step"]

    order = TrainingOrder(run.data.count(), run.batch.size, mesh.ranks["data"], size, run.seed, first_step)
    batches = training_batches(split.train, order, run.data.workers, run.data.prefetch, device)
    if resume is not None and first_step < run.total_steps:
        # DDP cuts its buckets after its first step, and a ring adds in an order that depends on the cut. One step for
        # nothing brings the buckets to what they were, so that the sums are bitwise those of an undisturbed run.
        batch = next(batches)
        executor.forward_backward(*batch)
        optimizer.zero_grad(set_to_none=True)
        batches = itertools.chain([batch], batches)
    if resume is not None:
        checkpoints.load(resume)
        if mesh.rank == 0:
            log.info("resumed from %s after %d of %d steps", resume, first_step, run.total_steps)

    writers = []
    if mesh.rank == 0:
        config = dump(run.model_copy(update={"folder": str(run.folder)})) | {"place": run.place._asdict()}
        writers = [logger.build(run.folder, config, run.total_steps, first_step) for logger in run.logger.values()]
    job = Job(
        run, mesh, device, executor, optimizer, synchroniser, checkpoints, control, meter, split.evaluation, writers
    )
    try:
        done = train(job, batches, first_step)
    finally:
        for writer in job.writers:
            writer.close()
    if mesh.rank == 0:
        print_summary(run, done, job.history)
    return done


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def _threads(run: Run) -> int:
    if run.launch.threads != "auto":
        return run.launch.threads
    return max(1, len(os.sched_getaffinity(0)) // run.place.processes)


def _log_to(folder: Path, rank: int) -> None:
    """Rank 0 speaks on the terminal, the others into a file of their own; each rank's log lines are in its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{rank}.log"
    handlers: list[logging.Handler] = [logging.FileHandler(path)]
    if rank == 0:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[-1].setFormatter(logging.Formatter("%(message)s"))
    else:
        # Also what native code prints when it dies.
        with open(path, "a") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
    handlers[0].setFormatter(logging.Formatter(f"%(asctime)s rank {rank} %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.getLogger("trainer").setLevel(logging.INFO)
