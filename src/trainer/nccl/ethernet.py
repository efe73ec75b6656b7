"""Several nodes over TCP."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainer.nccl.base import Nccl, Network
from trainer.nccl.machine import Machine

Speed = Literal[1, 10, 25, 100]
# One TCP stream fills up to 10 Gbit/s. Above that several do, each fed by a thread that takes a part of a core.
SOCKETS: dict[int, dict[str, str]] = {
    25: {"NCCL_SOCKET_NTHREADS": "2", "NCCL_NSOCKS_PERTHREAD": "2"},
    100: {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"},
}
SPEEDS: tuple[Speed, ...] = (1, 10, 25, 100)


class Ethernet(Nccl):
    """The interface, and as many sockets as its speed needs."""

    network: ClassVar[Network | None] = "ethernet"

    env: dict[str, str] = {"NCCL_DEBUG": "WARN", "NCCL_NET": "Socket"}
    link_gbit: Speed = 10
    """the speed of the link between the nodes in Gbit/s: 1, 10, 25 or 100"""

    def found(self, here: Machine) -> dict[str, str]:
        several = SOCKETS.get(self.link_gbit, {}) if here.nodes > 1 else {}
        return super().found(here) | several


def nearest(gbit: float | None) -> Speed:
    """The speed to set up for a link of `gbit`: the next one below, and one stream where it is not known."""
    return max((speed for speed in SPEEDS if gbit is not None and speed <= gbit), default=1)
