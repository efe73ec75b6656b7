"""What each host is told: its command line and its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from trainer.lab.layout import INTERFACE, PORT, Lab

TRAIN = "train.py"


def command_for(lab: Lab, host: int, command: Sequence[str]) -> list[str]:
    """The user's command for host number `host`: train.py learns its place, as far as the user has not said it.

    With it comes its part of the machine's cores, of which no host knows that others compute on them, too.
    """
    place = {
        "launch.nodes": lab.hosts,
        "launch.node_rank": host,
        "launch.processes": lab.ranks_per_host,
        "launch.rendezvous": f"{lab.address(0)}:{PORT}",
        "launch.threads": max(1, len(os.sched_getaffinity(0)) // (lab.hosts * lab.ranks_per_host)),
    }
    # The whole name, because a my_train.py of another kind knows nothing of launch.
    if TRAIN not in [PurePath(word).name for word in command]:
        return list(command)
    given = {found[1] for found in (re.match(r"\+{0,2}([\w.]+)=", word) for word in command) if found}
    return [*command, *(f"{key}={value}" for key, value in place.items() if key not in given)]


def environment_for(lab: Lab, host: int, base: Mapping[str, str], started: str) -> dict[str, str]:
    """The environment of host number `host`: `base` and what only the lab knows; `started` is the same on all hosts."""
    ours = {
        "NETLAB_HOSTS": lab.hosts,
        "NETLAB_HOST": host,
        "NETLAB_RANKS_PER_HOST": lab.ranks_per_host,
        "NETLAB_MASTER_ADDR": lab.address(0),
        "NETLAB_MASTER_PORT": PORT,
        "TRAINER_STARTED": started,
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "NCCL_SOCKET_IFNAME": INTERFACE,
        # NCCL would see that the hosts are one machine and go past the link, through memory or InfiniBand.
        "NCCL_HOSTID": lab.namespace(host),
        "NCCL_IB_DISABLE": 1,
    }
    return {**base, **{name: str(value) for name, value in ours.items()}}
