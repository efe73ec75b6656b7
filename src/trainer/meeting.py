"""How the processes of one job meet: a store that all of them reach, before and under the process groups."""

from __future__ import annotations

import datetime
import functools
import itertools
import os
from typing import NamedTuple

import torch
import torch.distributed as dist

_jobs = itertools.count()


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


def open_attempt() -> Attempt:
    """That of the next job. Jobs that one process runs after another, and a job's restarts, have keys apart."""
    key = f"job{next(_jobs)}/attempt{restarts()}"
    return Attempt(key, dist.PrefixStore(key, store()))


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
    """How many times the agent has started this job's workers again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
