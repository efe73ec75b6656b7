"""This machine's network interfaces and their addresses."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_interface
from pathlib import Path

from trainer.nccl.checker.context import Interface

# Linux's requests for an interface's flags, address and netmask.
FLAGS, ADDRESS, NETMASK = 0x8913, 0x8915, 0x891B
UP = 0x1
# What NCCL looks for in turn, by how a name begins; none of these words is any name that begins like none of LAST.
ORDER: tuple[tuple[str, ...], ...] = (("ib",), (), ("docker",), ("lo",), ("virbr",))
LAST = ("docker", "lo", "virbr")


def find(proc: Path) -> tuple[Interface, ...]:
    """All interfaces by name; none on a system that does not tell.

    Their IPv4 addresses are asked of the kernel, those of IPv6 stand in a file under `proc`.
    """
    six = _addresses6(proc)
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for index, name in sorted(socket.if_nameindex(), key=lambda entry: entry[1]):
            flags = _ask(asked, FLAGS, name)
            address, mask = _ask(asked, ADDRESS, name), _ask(asked, NETMASK, name)
            four = []
            if address is not None and mask is not None:
                whole = f"{socket.inet_ntoa(address[4:8])}/{socket.inet_ntoa(mask[4:8])}"
                four = [ip_interface(whole).with_prefixlen]
            up = flags is not None and bool(struct.unpack_from("H", flags)[0] & UP)
            found.append(Interface(name, up, (*four, *six.get(name, ())), index))
    return tuple(found)


def taken(found: Sequence[Interface]) -> str | None:
    """The interface that NCCL meets the other ranks at when it is told none; None where none is up with an address."""
    # The kernel lists addresses by family, then by the interface's number.
    usable = sorted((one for one in found if one.usable), key=lambda one: (":" in one.addresses[0], one.index))
    for words in ORDER:
        for one in usable:
            if one.name.startswith(words) if words else not one.name.startswith(LAST):
                return one.name
    return None


def _ask(asked: socket.socket, request: int, name: str) -> bytes | None:
    """The 24 bytes that answer; None where the interface has no such thing."""
    try:
        return fcntl.ioctl(asked, request, struct.pack("16s24x", name.encode()))[16:]
    except OSError:
        return None


def _addresses6(proc: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):
        for line in (proc / "net" / "if_inet6").read_text().splitlines():
            address, _, prefix, *_, name = line.split()
            found.setdefault(name, []).append(f"{IPv6Address(bytes.fromhex(address))}/{int(prefix, 16)}")
    return found
