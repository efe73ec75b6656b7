"""RDMA adapters: what InfiniBand and RoCE traffic goes through."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address
from pathlib import Path
from typing import NamedTuple

from trainer.nccl.checker.context import Gid

# As the drivers of Mellanox's cards print a class that is set for a whole port.
CLASS = re.compile(r"Global tclass=(\d+)")


class Adapter(NamedTuple):
    """One port of an adapter."""

    name: str
    port: int
    layer: str
    """what the port speaks: InfiniBand, Ethernet (RoCE), or what the driver of another fabric says"""
    active: bool
    gbit: float | None
    gids: tuple[Gid, ...] = ()
    """of RoCE, the rows of the address table that are in use"""
    traffic_class: int | None = None
    """of RoCE, the one that the kernel gives all connections of the port, where it is set"""

    @property
    def kind(self) -> str:
        """What ports that are alike have in common, in words."""
        rate = "" if self.gbit is None else f" of {self.gbit:g} Gbit/s"
        return f"{self.layer}{rate}" if self.active else f"{self.layer}, down"


def find(sys_root: Path) -> tuple[Adapter, ...]:
    """All ports of all adapters in `/sys/class/infiniband`, by name; none where there is no such folder."""
    folders = sorted((sys_root / "class" / "infiniband").glob("*/ports/*"))
    return tuple(_adapter(folder) for folder in folders if folder.name.isdigit())


def spell(adapters: Sequence[Adapter]) -> str:
    """`8 RDMA ports (InfiniBand of 400 Gbit/s)`, all kinds of them."""
    if not adapters:
        return "no RDMA adapter"
    kinds = Counter(adapter.kind for adapter in adapters)
    return ", ".join(f"{count} RDMA port{'s' if count > 1 else ''} ({kind})" for kind, count in kinds.items())


def _adapter(folder: Path) -> Adapter:
    state, rate = _read(folder / "state"), _read(folder / "rate")
    number = rate.partition(" ")[0]
    device, layer = folder.parent.parent, _read(folder / "link_layer") or "unknown"
    roce = layer == "Ethernet"
    set_class = CLASS.search(_read(device / "tc" / folder.name / "traffic_class")) if roce else None
    return Adapter(
        device.name,
        int(folder.name),
        layer,
        state.endswith("ACTIVE"),
        float(number) if number.replace(".", "", 1).isdigit() else None,
        tuple(sorted(_gids(folder), key=lambda gid: gid.index)) if roce else (),
        int(set_class[1]) if set_class else None,
    )


def _gids(port: Path) -> Iterator[Gid]:
    for row in (port / "gids").glob("*"):
        address = None
        with contextlib.suppress(ValueError):
            address = IPv6Address(_read(row))
        # Most of some hundred rows are empty, which the kernel writes as zeros.
        if row.name.isdigit() and address is not None and not address.is_unspecified:
            kind = _read(port / "gid_attrs" / "types" / row.name)
            yield Gid(int(row.name), str(address), 1 if kind.endswith("v1") else 2)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
