"""What of a run's options can be taken elsewhere: not where it ran, what it wrote, or what it found on its machine."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainer.config import COMMANDS
from trainer.nccl.ethernet import SOCKETS

# Options that say where and from what one run started, and what it was one of.
OF_ONE_RUN = (
    *COMMANDS,
    "place",
    "folder",
    "checkpoint.resume",
    "launch.processes",
    "launch.nodes",
    "launch.node_rank",
    "launch.rendezvous",
    "launch.threads",
    "logger.wandb.group",
)
INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def portable(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A copy of a run's options without those of one run, and the variables of NCCL that were left out of it.

    Interfaces, the sockets for their speed and the log's place in the run's folder are looked up anew by every run.
    """
    kept = copy.deepcopy(dict(options))
    for option in OF_ONE_RUN:
        *nodes, last = option.split(".")
        node: Any = kept
        for name in nodes:
            node = node.get(name) or {}
        node.pop(last, None)
    env = (kept.get("nccl") or {}).get("env") or {}
    left_out = {name: value for name, value in env.items() if _found(name, env, str(options.get("folder")))}
    for name in left_out:
        del env[name]
    return kept, left_out


def _found(name: str, env: Mapping[str, str], folder: str) -> bool:
    if name == "NCCL_DEBUG_FILE":
        return env[name].startswith(f"{folder}/")
    several = any(name in sockets and sockets.items() <= env.items() for sockets in SOCKETS.values())
    return name in INTERFACES or several
