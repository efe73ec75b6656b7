"""What a machine tells the checker."""

from __future__ import annotations

import math
from typing import Any, Literal

from trainer.nccl.adapters import Adapter
from trainer.nccl.checker.context import Device
from trainer.nccl.interfaces import taken
from trainer.nccl.machine import LINKS, Machine


def of(here: Machine) -> dict[str, Any]:
    """The fields of a Context that are known of the machine `here`, which is the one that is judged."""
    return {
        "local": True,
        "gpu": here.gpu or None,
        "nvlink": here.nvlink,
        "gpus": here.gpus.number,
        "gpu_paths": here.gpus.paths,
        "peer_access": here.gpus.peer_access,
        "shm_bytes": here.shared_bytes,
        "memory_lockable": None if here.locked_bytes is None else math.isinf(here.locked_bytes),
        "plugin": here.plugin,
        "interfaces": here.interfaces,
        "interface": taken(here.interfaces or ()),
        "host_address": here.host_address,
        "devices": tuple(_device(adapter) for adapter in here.adapters if adapter.layer in LINKS),
        "verbs": here.verbs,
        "traffic_class": _traffic_class(here),
    }


def _device(adapter: Adapter) -> Device:
    link: Literal["ib", "ethernet"] = LINKS[adapter.layer]
    return Device(adapter.name, link, adapter.active, adapter.gids)


def _traffic_class(here: Machine) -> int | None:
    """The one that all RoCE ports have that are up."""
    classes = {adapter.traffic_class for adapter in here.adapters if adapter.active and adapter.layer == "Ethernet"}
    return classes.pop() if len(classes) == 1 else None
