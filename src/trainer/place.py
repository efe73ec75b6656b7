"""Where a run's processes are: who starts them, how many there are, and on which kind of device."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import zlib
from collections.abc import Mapping, MutableMapping
from typing import Literal, NamedTuple

import torch

from trainer.spec import ConfigError

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """`launcher` is `train` where train.py starts the workers, `other` where this process already is a worker."""

    launcher: Literal["train", "other"]
    device: Literal["cpu", "cuda"]
    nodes: int
    processes: int
    """worker processes on each node"""

    @property
    def world(self) -> int:
        return self.nodes * self.processes


def launcher(environment: Mapping[str, str]) -> Literal["train", "other"]:
    """Tell whether this process is already a worker, of torchrun or of any launcher that sets its variables."""
    return "other" if "RANK" in environment and "WORLD_SIZE" in environment else "train"


def is_first(environment: Mapping[str, str], node_rank: int = 0) -> bool:
    """Whether of all processes that were started alike, on nodes of these numbers, this one speaks and writes."""
    return environment.get("RANK", "0") == "0" and node_rank == 0


def is_srun_task(environment: Mapping[str, str]) -> bool:
    """Whether this is one of several tasks that srun started.

    A batch script or a salloc shell has SLURM_NTASKS too; only a step of several tasks has this one above 1.
    """
    return int(environment.get("SLURM_STEP_NUM_TASKS", "1")) > 1 and "SLURM_PROCID" in environment


def join_srun(environment: MutableMapping[str, str]) -> None:
    """Put torch's variables into the environment of one of several tasks that srun started, once."""
    if is_srun_task(environment) and launcher(environment) == "train":
        environment.update(adopt_srun(environment))


def adopt_srun(environment: Mapping[str, str]) -> dict[str, str]:
    """torch's rendezvous variables for this task of a Slurm step, from Slurm's own.

    The first host of the step meets the others on a port derived from the job and step, so that two steps on one host
    do not collide.
    """
    world = int(environment["SLURM_STEP_NUM_TASKS"])
    nodes = int(environment.get("SLURM_STEP_NUM_NODES", "1"))
    if world % nodes:
        raise ConfigError(
            f"launch: srun started {world} tasks on {nodes} nodes; use --ntasks-per-node so that every node has as many"
        )
    host = environment.get("MASTER_ADDR", socket.gethostname())
    if nodes > 1 and "MASTER_ADDR" not in environment:
        names = ["scontrol", "show", "hostnames", environment["SLURM_STEP_NODELIST"]]
        host = subprocess.run(names, check=True, capture_output=True, text=True).stdout.split()[0]
        _refuse_nowhere(host)
    step = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    return {
        "RANK": environment["SLURM_PROCID"],
        "LOCAL_RANK": environment.get("SLURM_LOCALID", "0"),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world // nodes),
        "MASTER_ADDR": host,
        "MASTER_PORT": environment.get("MASTER_PORT", str(20000 + zlib.crc32(step.encode()) % 20000)),
    }


def _refuse_nowhere(host: str) -> None:
    """Raise ConfigError where `host` is a name that only Slurm knows: ranks would look for it for minutes."""
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        raise ConfigError(
            f"launch: {host}, the first node of the step, has no address ({error}); set MASTER_ADDR to one of its"
            " addresses that all nodes reach"
        ) from None


def _warn_of_shared_store(environment: Mapping[str, str]) -> None:
    """Say what keeps hosts from coming back, of which torchrun itself says nothing until it gives up."""
    shared = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    several = int(environment.get("GROUP_WORLD_SIZE", "1")) > 1
    if shared and several and int(environment.get("TORCHELASTIC_MAX_RESTARTS", "0")):
        log.warning(
            "launch: a host that dies could not come back, since torchrun tells newcomers nothing of the store that the"
            " others share; set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 on every host"
        )


def find_place(processes: int | None, nodes: int, ranks: int, fills: bool) -> Place:
    """Decide the number of processes and the device.

    `processes` a node as the user set it, or None for auto; `ranks` is the size of the mesh, or where it `fills`, as
    often as it goes, whatever there is, that of what is repeated. The GPUs are counted through NVML where that works,
    so that the launcher never opens CUDA.
    """
    gpus = torch.cuda.device_count()
    device: Literal["cpu", "cuda"] = "cuda" if gpus else "cpu"
    if launcher(os.environ) == "other":
        _warn_of_shared_store(os.environ)
        local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return Place("other", device, int(os.environ["WORLD_SIZE"]) // local, local)
    if processes is None:
        # Without GPUs two replicas are enough to show what a run with more would do, and any laptop has the cores.
        two_replicas = 2 if ranks == 1 else -(-2 * ranks // nodes)
        processes = (gpus or two_replicas) if fills else max(1, ranks // nodes)
    if gpus and processes > gpus:
        raise ConfigError(
            f"launch.processes: {processes} workers a node, but {gpus} GPUs are visible; set launch.processes={gpus}"
            " or fewer, or hide the GPUs with CUDA_VISIBLE_DEVICES= to run on the CPU"
        )
    return Place("train", device, nodes, processes)
