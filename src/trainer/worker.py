"""One worker: join the others, train, leave."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from trainer import meeting
from trainer.assemble import assemble
from trainer.comm.courier import CourierError
from trainer.conclusion import conclude
from trainer.control import Control
from trainer.errors import Diverged, LostPeer
from trainer.loop import steps
from trainer.mesh import Mesh
from trainer.nccl import agreement, inspection
from trainer.nccl.read_back import ReadBack
from trainer.run import Run
from trainer.spec import ConfigError
from trainer.summary import print_summary
from trainer.tensor.hosts import warn_of_hosts
from trainer.tune.base import Session

log = logging.getLogger(__name__)

# Seconds a rank that lost a peer waits to be ended with the others, so that the peer's failure is the one reported.
LOST_PEER_S = 5.0


@record
def main(run: Run) -> Any:
    """Run this process's part of `run`; the steps done, or what a session found. Exits with 128 + n after signal n."""
    # Before anything opens a communicator. What the user set for this process wins.
    for name, value in run.nccl.environment().items():
        os.environ.setdefault(name, value)
    device = _device()
    torch.set_num_threads(_threads(run))
    attempt = meeting.open_attempt(run.timeout)
    agreement.compare(attempt.store, int(os.environ["RANK"]), run.place.world, run.timeout)
    read_back = ReadBack() if run.nccl.read_back and device.type == "cuda" else None
    folder = Path(meeting.join(attempt, str(run.folder), device, run.timeout))
    run = run.model_copy(update={"folder": folder})
    _log_to(folder / "logs", dist.get_rank())
    mesh = Mesh.join(run.parallel.sizes(run.place.world), device, run.timeout)
    control = Control(mesh.control)
    try:
        if isinstance(run.tune, Session):
            return run.tune.hold(run, mesh, device, partial(inspection.inspect, run, read_back, mesh, device))
        done = _train(run, mesh, device, control, read_back)
        if control.stopped_by:
            # Returning would leave this process waiting for an agent that waits for it to end.
            sys.exit(128 + control.stopped_by)
        return done
    except RuntimeError as error:
        if "onnection" not in str(error):
            raise
        reason = str(error).strip().splitlines()[0].rpartition(f"{CourierError.__name__}: ")[2]
        if control.told_within(LOST_PEER_S):
            log.error("rank %d waited in vain: %s", mesh.rank, reason)
            sys.exit(1)
        raise LostPeer(
            f"rank {mesh.rank} lost a rank on another node, whose own message says why ({reason})"
        ) from error
    finally:
        # After any other failure the ranks are not in step, and leaving in order could wait for ever.
        if sys.exc_info()[0] in (None, Diverged, ConfigError):
            dist.destroy_process_group()


def _train(run: Run, mesh: Mesh, device: torch.device, control: Control, read_back: ReadBack | None) -> int:
    if mesh.sizes["tensor"] > 1:
        warn_of_hosts(mesh, device)
    looks = run.nccl.read_back or (run.parallel.data.bucket_cap_mb == "auto" and mesh.sizes["data"] > 1)
    job, batches = assemble(
        run, mesh, device, control, inspection.inspect(run, read_back, mesh, device) if looks else None
    )
    try:
        for _ in steps(job, batches):
            pass
        lines = conclude(run.folder, run.log.report, job.writers) if mesh.rank == 0 else []
    finally:
        for writer in job.writers:
            writer.close()
    job.close()
    if mesh.rank == 0:
        print_summary(run, job.done, job.total, job.history, lines)
    return job.done


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    # Slurm may show each task its own GPU only.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _threads(run: Run) -> int:
    if run.launch.threads != "auto":
        return run.launch.threads
    cores, own = len(os.sched_getaffinity(0)), os.environ.get("SLURM_CPUS_PER_TASK")
    if own and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) == run.place.world:
        # Each worker is a task of Slurm's, which has cores of its own: bound to them it sees no others.
        return max(1, min(cores, int(own)))
    return max(1, cores // run.place.processes)


class _Terminal(logging.StreamHandler):
    """Standard error as it is at the moment: a live display puts itself in its place to keep lines apart."""

    def emit(self, entry: logging.LogRecord) -> None:
        self.setStream(sys.stderr)
        super().emit(entry)


def _log_to(folder: Path, rank: int) -> None:
    """Rank 0 speaks on the terminal, the others into a file of their own; each rank's log lines are in its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{rank}.log"
    handlers: list[logging.Handler] = [logging.FileHandler(path)]
    if rank == 0:
        handlers.append(_Terminal())
        handlers[-1].setFormatter(logging.Formatter("%(message)s"))
    else:
        # Also what native code prints when it dies.
        with open(path, "a") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
    handlers[0].setFormatter(logging.Formatter(f"%(asctime)s rank {rank} %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.getLogger("trainer").setLevel(logging.INFO)
