"""Start the workers with torch's elastic agent, or be one of those that torchrun or srun started."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import signal
import socket
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from torch.distributed import DistNetworkError, TCPStore
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous.api import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from trainer import meeting, nursery, place, signals
from trainer.errors import Diverged, LostPeer
from trainer.run import Run
from trainer.spec import ConfigError, dump

AGENT = "torch.distributed.elastic"
# Seconds that stopped workers have to save a checkpoint before they are killed.
SAVING_S = 60
_LAUNCHES = itertools.count()


class WorkerFailed(Exception):
    """A worker ended badly; the message says which one, how, and where its log is."""


class Stopped(Exception):
    """The run was told to stop and did, with a checkpoint."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def launch(run: Run) -> Any:
    """Train, and return what the workers of this node returned, alike.

    Raises WorkerFailed, Stopped, or ConfigError where a worker found one.
    """
    _make_folder(run)
    if run.place.launcher == "other":
        return _work(run)
    if run.launch.nodes > 1:
        # With the store that agents share, one that comes back with its host never learns where the others meet.
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        if run.launch.node_rank == 0:
            _open_meeting_place(_endpoint(run))
    try:
        with _quiet_agent():
            return next(iter(elastic_launch(_agent(run), _work)(run).values()))
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode in signals.CODES:
            # Someone told a worker to stop instead of this launcher; the others followed it.
            raise Stopped(failure.exitcode - 128) from None
        raise _explain(run, rank, failure) from None
    except SignalException as error:
        raise Stopped(error.sigval) from None
    except RendezvousError as error:
        raise WorkerFailed(
            f"launch.rendezvous: the nodes lost each other ({error}); the terminal of node 0 says why it left"
        ) from None


def _work(run: Run) -> Any:
    """A worker's whole life. The launcher needs none of what this imports."""
    from trainer import worker

    return worker.main(run)


def _agent(run: Run) -> LaunchConfig:
    several = run.launch.nodes > 1
    endpoint = _endpoint(run)
    return LaunchConfig(
        min_nodes=run.launch.nodes,
        max_nodes=run.launch.nodes,
        nproc_per_node=run.place.processes,
        run_id=_meeting_of(run) if several else uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint=endpoint,
        rdzv_configs={"is_host": run.launch.node_rank == 0, "timeout": run.launch.timeout_s},
        local_addr=_address_towards(endpoint) if several else "localhost",
        max_restarts=run.launch.max_restarts,
        monitor_interval=0.1,
        start_method=nursery.START_METHOD,
        shutdown_timeout=SAVING_S,
        signals_to_handle=_heard(),
    )


def _endpoint(run: Run) -> str:
    return run.launch.rendezvous or "localhost:0"


@functools.cache
def _open_meeting_place(endpoint: str) -> TCPStore:
    """The store at which all nodes' launchers meet, kept open for all launches of this process.

    Agents would open one for each, and close it under those who have come for the next. On one port a process has one,
    so that they use this one. Raises ConfigError.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        return TCPStore(host, int(port), is_master=True, wait_for_workers=False, multi_tenant=True)
    except DistNetworkError as error:
        reason = str(error).splitlines()[0].rpartition("message: ")[2]
        raise ConfigError(f"launch.rendezvous: node 0 cannot open {endpoint} ({reason}); choose another port") from None


def _heard() -> str:
    """The names of the signals that stop this launcher; what somebody handles already, as submitit does, is his."""
    free = [number for number in signals.BY_CUSTOM if signal.getsignal(number) == signal.SIG_DFL]
    heard = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, *free)
    return ",".join(number.name for number in heard)


def _meeting_of(run: Run) -> str:
    """A name that all nodes' launchers know; where each launches several runs, as in a sweep, another for each."""
    number = next(_LAUNCHES)
    return run.name if number == 0 else f"{run.name}-{number}"


def _address_towards(endpoint: str) -> str:
    """The address of this machine's interface on the route to `endpoint`; nothing is sent."""
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return probe.getsockname()[0]
    except OSError as error:
        raise ConfigError(f"launch.rendezvous: {endpoint} cannot be reached ({error}); check the host's name") from None


def refuse_foreign_folder(run: Run) -> None:
    """Raise ConfigError where the folder holds checkpoints of a run with which this one does not go on."""
    resumed = run.checkpoint.resume is not None and Path(run.checkpoint.resume).is_relative_to(run.folder)
    # One that was being written when its run was killed is of no use to anybody.
    kept = any(entry.suffix != ".partial" for entry in run.checkpoints.glob("*"))
    if kept and not resumed and not meeting.restarts():
        raise ConfigError(
            f"folder: {run.folder} holds the checkpoints of another run; choose a new one, or go on with it by"
            f" checkpoint.resume={run.folder}"
        )


def _make_folder(run: Run) -> None:
    refuse_foreign_folder(run)
    try:
        # With the folder for logs: NCCL may write one before the workers have met.
        (run.folder / "logs").mkdir(parents=True, exist_ok=True)
        if place.is_first(os.environ, run.launch.node_rank):
            (run.folder / "run.yaml").write_text(describe(run))
    except OSError as error:
        raise ConfigError(
            f"folder: cannot write to {run.folder} ({error.strerror}); choose another place with folder=<path>"
        ) from None


def describe(run: Run) -> str:
    """The resolved run as YAML; with a pipeline, its schedule as comments that YAML passes over."""
    described = yaml.safe_dump({**dump(run), "place": run.place._asdict()}, sort_keys=False)
    if run.parallel.pipeline.size > 1:
        from trainer.pipeline.check import picture

        described += "".join(f"# {line}\n" for line in picture(run))
    return described


@contextlib.contextmanager
def _quiet_agent() -> Iterator[None]:
    """What the agent has to say is said in our words; each of its loggers has a level of its own."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith(AGENT)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _explain(run: Run, rank: int, failure: ProcessFailure) -> Exception:
    log = run.folder / "logs" / f"rank{rank}.log"
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        return WorkerFailed(f"{_who(run, rank)} was killed by {name}; the other ranks were ended; its log is {log}")
    message, trace = failure.message, ""
    if isinstance(message, dict):
        trace = message.get("extraInfo", {}).get("py_callstack", "")
        message = message.get("message", "")
    kind, _, text = str(message).partition(": ")
    if kind == ConfigError.__name__:
        # What a loader process raised comes wrapped in that process's traceback; the reason is its last line.
        return ConfigError(text.strip().splitlines()[-1].removeprefix(f"{ConfigError.__module__}.ConfigError: "))
    if kind in (Diverged.__name__, LostPeer.__name__):
        return WorkerFailed(text)
    print(trace, file=sys.stderr)
    return WorkerFailed(f"{_who(run, rank)} failed: {message}; its log is {log}")


def _who(run: Run, rank: int) -> str:
    """The rank, and where a model is cut its place in the pipeline, which comes first in the mesh."""
    pipeline = run.parallel.pipeline.size
    if pipeline == 1:
        return f"rank {rank}"
    return f"rank {rank}, number {rank // (run.place.world // pipeline)} of its pipeline,"
