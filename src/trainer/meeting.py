"""How the processes of one job meet: a store that all of them reach, before and under the process groups."""

from __future__ import annotations

import datetime
import functools
import itertools
import os
import time
import uuid
from typing import NamedTuple

import torch
import torch.distributed as dist

from trainer.errors import LostPeer

_jobs = itertools.count()
# Seconds after which rank 0 looks again who has come.
POLL_S = 0.01


class Attempt(NamedTuple):
    """Where the processes of one job find each other, in one of its attempts."""

    key: str
    store: dist.Store


@functools.cache
def store() -> dist.Store:
    """The store at MASTER_ADDR and MASTER_PORT. An elastic agent hosts it; under srun the first rank does."""
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=not agent and os.environ["RANK"] == "0",
        wait_for_workers=False,
    )


def agree(key: str, value: str) -> str:
    """Rank 0's `value`, on every rank."""
    if os.environ["RANK"] == "0":
        # What was agreed before a restart holds.
        store().compare_set(key, "", value)
    return store().get(key).decode()


def open_attempt(timeout: datetime.timedelta) -> Attempt:
    """That of the next job. Jobs that one process runs after another, and a job's restarts, have keys apart.

    Collective over all ranks; raises LostPeer where one of them does not come within `timeout`.
    """
    job, rank, world = f"job{next(_jobs)}", int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    name = name_attempt(dist.PrefixStore(f"{job}/lobby", store()), rank, world, timeout)
    return Attempt(f"{job}/{name}", dist.PrefixStore(f"{job}/{name}", store()))


def name_attempt(lobby: dist.Store, rank: int, world: int, timeout: datetime.timedelta) -> str:
    """A name that no attempt had before, the same on all ranks.

    Rank 0 makes it up, since nobody has counted right: each agent counts the failures that it saw, and one that came
    back with its host has seen none.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        _welcome(lobby, own, world, time.monotonic() + timeout.total_seconds())
        return own
    lobby.set(f"asks/{rank}", own)
    lobby.wait([f"told/{own}"], timeout)
    name = lobby.get(f"told/{own}").decode()
    lobby.set(f"{name}/{rank}", "")
    return name


def _welcome(lobby: dist.Store, name: str, world: int, deadline: float) -> None:
    """Tell every other rank the attempt's name. One that died in an attempt before may have asked, too."""
    told: dict[int, bytes] = {}
    away = set(range(1, world))
    while away:
        for rank in away:
            if lobby.check([f"asks/{rank}"]) and told.get(rank) != (asked := lobby.get(f"asks/{rank}")):
                lobby.set(f"told/{asked.decode()}", name)
                told[rank] = asked
        away = {rank for rank in away if not lobby.check([f"{name}/{rank}"])}
        if away and time.monotonic() > deadline:
            missing = ", ".join(map(str, sorted(away)))
            raise LostPeer(f"launch.timeout_s: ranks {missing} of {world} did not come in time; see their logs")
        time.sleep(POLL_S if away else 0)


def join(attempt: Attempt, folder: str, device: torch.device, timeout: datetime.timedelta) -> str:
    """Initialise the default process group of `attempt`, and return rank 0's `folder`."""
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=attempt.store,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=timeout,
        device_id=device if device.type == "cuda" else None,
    )
    return agree(f"{attempt.key}/folder", folder)


def restarts() -> int:
    """How many times this job was started again, its workers by the agent or all of it by Slurm, as far as known here.

    An agent knows only of failures that it saw.
    """
    return sum(int(os.environ.get(name, "0")) for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))
