"""RDMA adapters: what InfiniBand and RoCE traffic goes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Adapter(NamedTuple):
    """One port of an adapter."""

    name: str
    port: int
    layer: str
    """what the port speaks: InfiniBand, Ethernet (RoCE), or what the driver of another fabric says"""
    active: bool
    gbit: float | None

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
    return Adapter(
        folder.parent.parent.name,
        int(folder.name),
        _read(folder / "link_layer") or "unknown",
        state.endswith("ACTIVE"),
        float(number) if number.replace(".", "", 1).isdigit() else None,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
