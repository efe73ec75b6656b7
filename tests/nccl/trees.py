"""Machines that never were: /sys and /proc as folders of a test."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from trainer.nccl.machine import Roots

ROUTES = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"


def roots(folder: Path) -> Roots:
    return Roots(folder / "sys", folder / "proc", folder / "dev")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def routes(proc: Path, *lines: tuple[str, str, str, int, int]) -> None:
    """(interface, network, mask, metric, flags) as the kernel prints them: numbers in memory's own order."""

    def word(address: str) -> str:
        return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}"

    text = [
        f"{interface}\t{word(network)}\t00000000\t{flags:04X}\t0\t0\t{metric}\t{word(mask)}\t0\t0\t0"
        for interface, network, mask, metric, flags in lines
    ]
    write(proc / "net" / "route", ROUTES + "\n".join(text) + "\n")


def interface(sys_root: Path, name: str, speed: str, vendor: str | None = "0x15b3") -> None:
    """A network interface; a virtual one has no vendor."""
    folder = sys_root / "class" / "net" / name
    write(folder / "speed", f"{speed}\n")
    if vendor is not None:
        write(folder / "device" / "vendor", f"{vendor}\n")


def adapter(sys_root: Path, name: str, layer: str, state: str = "4: ACTIVE", rate: str = "400 Gb/sec (4X NDR)") -> None:
    port = sys_root / "class" / "infiniband" / name / "ports" / "1"
    write(port / "link_layer", f"{layer}\n")
    write(port / "state", f"{state}\n")
    write(port / "rate", f"{rate}\n")


def gid(sys_root: Path, name: str, index: int, address: str, kind: str) -> None:
    """A row of the address table of an adapter's port; one that is not in use has no kind that could be read."""
    port = sys_root / "class" / "infiniband" / name / "ports" / "1"
    write(port / "gids" / str(index), f"{address}\n")
    if kind:
        write(port / "gid_attrs" / "types" / str(index), f"{kind}\n")


def traffic_class(sys_root: Path, name: str, text: str) -> None:
    write(sys_root / "class" / "infiniband" / name / "tc" / "1" / "traffic_class", text)
