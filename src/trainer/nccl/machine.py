"""What there is to communicate with, on this machine and between it and the others."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainer.nccl import adapters, gpus, interfaces, limits, plugins, routes
from trainer.nccl.adapters import Adapter
from trainer.nccl.checker.context import Interface
from trainer.nccl.gpus import UNKNOWN, Gpus

if TYPE_CHECKING:
    from trainer.run import Run


class Roots(NamedTuple):
    """Where the system describes itself."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")


SYSTEM = Roots()
# The fabrics that the checker knows, and NCCL speaks without a plugin.
LINKS: dict[str, Literal["ib", "ethernet"]] = {"InfiniBand": "ib", "Ethernet": "ethernet"}


@dataclass(frozen=True)
class Machine:
    """What `look` saw. None is what it could not tell."""

    nodes: int = 1
    processes: int = 1
    gpu: bool = False
    meets_at: str | None = None
    """the host where several nodes meet"""
    interface: str | None = None
    """the network interface on the route to it, looked for only where there are several nodes"""
    link_gbit: float | None = None
    """its nominal speed"""
    adapters: tuple[Adapter, ...] = ()
    nvlink: bool | None = None
    verbs: bool | None = None
    """whether a process may reach the adapters, which a container must be given"""
    shared_bytes: int | None = None
    """the size of /dev/shm"""
    locked_bytes: float | None = None
    """how much memory a process may lock"""
    interfaces: tuple[Interface, ...] | None = None
    """all of them"""
    gpus: Gpus = UNKNOWN
    plugin: str | None = None
    """the network plugin that NCCL would load"""
    host_address: str | None = None
    """what the host's own name resolves to, looked for only where there are several nodes"""

    def __str__(self) -> str:
        workers = f"{self.processes} worker{'s' if self.processes > 1 else ''}"
        words = [f"{self.nodes} nodes x {workers}" if self.nodes > 1 else f"1 node, {workers}"]
        if self.gpu:
            words.append({True: "GPUs with NVLink", False: "GPUs without NVLink", None: "GPUs"}[self.nvlink])
            if self.nvlink is None:
                words.append("NVLink unknown without the package nvidia-ml-py")
            if self.shared_bytes is not None:
                words.append(f"/dev/shm of {limits.spell(self.shared_bytes)}")
        else:
            words.append("no GPU")
        if self.nodes > 1:
            speed = "" if self.link_gbit is None else f" of {self.link_gbit:g} Gbit/s"
            way = f"the route to {self.meets_at}"
            words.append(f"{self.interface}{speed} on {way}" if self.interface else f"no interface known on {way}")
            words.append(adapters.spell(self.adapters))
        return ", ".join(words)

    def complaints(self, named: bool = False) -> list[str]:
        """What may go wrong here, each in a line: where, what is wrong and what to do.

        An interface that could not be found is no complaint where the user has `named` one.
        """
        found: list[str] = []
        if self.nodes > 1 and self.interface is None and not named:
            found.append(
                f"launch.rendezvous: {self.meets_at} is unknown here or stands for the loopback; write its address, or"
                " name the interface by nccl.env.NCCL_SOCKET_IFNAME and nccl.env.GLOO_SOCKET_IFNAME"
            )
        if not self.gpu:
            return found
        # Of InfiniBand and RoCE, and of /dev/shm, the checker speaks.
        others = self.nodes > 1 and any(adapter.active and adapter.layer not in LINKS for adapter in self.adapters)
        if others and self.locked_bytes is not None and self.locked_bytes < float("inf"):
            found.append(
                f"locked memory: RDMA needs more than the limit of {limits.spell(self.locked_bytes)}; start with"
                " ulimit -l unlimited, or the container with --ulimit memlock=-1"
            )
        return found


def node_name() -> str:
    """The name of this machine; where several nodes are only namespaces of one, with the number the agent gave it."""
    return f"{platform.node()}/{os.environ.get('GROUP_RANK', '')}"


def look(run: Run, roots: Roots = SYSTEM) -> Machine:
    """See what this node has for `run`."""
    place, meets_at, interface = run.place, None, None
    gpu = place.device == "cuda"
    if place.nodes > 1:
        # torchrun and srun have told every worker by its environment.
        meets_at = os.environ.get("MASTER_ADDR", "")
        if place.launcher == "train" and run.launch.rendezvous is not None:
            meets_at = run.launch.rendezvous.rpartition(":")[0].strip("[]")
        interface = routes.interface_towards(meets_at, roots.proc)
    return see(place.nodes, place.processes, gpu, meets_at, interface, roots)


def see(
    nodes: int,
    processes: int,
    gpu: bool | None,
    meets_at: str | None = None,
    interface: str | None = None,
    roots: Roots = SYSTEM,
    environment: Mapping[str, str] = os.environ,
) -> Machine:
    """See what this machine has; what only GPUs use is left out where they are not used, and NVML decides on None."""
    told = UNKNOWN if gpu is False else gpus.look()
    used = bool(told.number) if gpu is None else gpu
    return Machine(
        nodes=nodes,
        processes=processes,
        gpu=used,
        meets_at=meets_at,
        interface=interface,
        link_gbit=None if interface is None else routes.speed_gbit(interface, roots.sys),
        adapters=adapters.find(roots.sys),
        nvlink=told.nvlink,
        verbs=any(roots.dev.glob("infiniband/uverbs*")) if used else None,
        shared_bytes=limits.shared_memory(roots.dev),
        locked_bytes=limits.locked_memory(roots.proc),
        interfaces=None if gpu is False else interfaces.find(roots.proc) or None,
        gpus=told,
        plugin=None if gpu is False else plugins.find(environment),
        host_address=routes.own_address() if gpu is not False and nodes > 1 else None,
    )
