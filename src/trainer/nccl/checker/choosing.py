"""Which interfaces and devices NCCL takes, as far as it is told and the machine is known."""

from __future__ import annotations

from ipaddress import ip_address

from trainer.nccl.checker import reading
from trainer.nccl.checker.context import Device, Interface
from trainer.nccl.checker.situation import Situation


def told(at: Situation, name: str) -> reading.Names | None:
    """The list that variable `name` holds; None where it is unset, or not written as a list."""
    text = at.text(name)
    return None if text is None or len(text) < 2 or reading.fault(text) else reading.names(text)


def interfaces(at: Situation) -> list[Interface]:
    """Those that NCCL_SOCKET_IFNAME selects, usable or not."""
    names = told(at, "NCCL_SOCKET_IFNAME")
    return [one for one in at.context.interfaces or () if names and names.selects(one.name)]


def devices(at: Situation) -> list[Device]:
    """Those that NCCL_IB_HCA selects, or all; the ports of one that are alike count once."""
    names = told(at, "NCCL_IB_HCA")
    found: dict[tuple[str, str], Device] = {}
    for one in at.context.devices or ():
        if names is None or names.selects(one.name):
            key = one.name, one.link
            found[key] = one if one.active else found.get(key, one)
    return list(found.values())


def verbs(at: Situation) -> bool:
    """Whether nothing keeps NCCL from its InfiniBand and RoCE network."""
    return not at.on("NCCL_IB_DISABLE") and (at.text("NCCL_NET") or "ib").lower() == "ib"


def loopback(address: str) -> bool:
    """Whether the address or name means the host that asks."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
