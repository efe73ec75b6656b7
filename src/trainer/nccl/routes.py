"""The network interface on the route to another machine, as the kernel's own tables name it."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import NamedTuple

UP, REJECT = 0x1, 0x200
# Amazon and Google: what these virtual adapters carry is no property of theirs, and NCCL sets its sockets for them.
CLOUDS = ("0x1d0f", "0x1ae0")
# A name stands in a file or is known to a server near by; one that does not answer at once is of no use to Gloo either.
PATIENCE_S = 1.0

Address = IPv4Address | IPv6Address


class Route(NamedTuple):
    """One line of a routing table."""

    network: IPv4Network | IPv6Network
    metric: int
    interface: str


def numeric(host: str) -> str | None:
    """The address of `host` as this machine knows it; None where it knows none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return None


def own_address(resolve: Callable[[str], str] = socket.gethostbyname) -> str | None:
    """What this host's own name resolves to, which is where Gloo listens when it is told no interface.

    None where the name is unknown, or nobody says within `PATIENCE_S`.
    """
    found: list[str] = []

    def ask() -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found.append(resolve(socket.gethostname()))

    # A server that is silent would keep the process from ending, were this no daemon.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    return found[0] if found else None


def interface_towards(host: str, proc: Path, resolve: Callable[[str], str | None] = numeric) -> str | None:
    """The interface through which `host` is reached, or which has its address where `host` is this machine.

    None where the name is unknown, stands for this machine's loopback only, or no table has a route.
    """
    found = resolve(host)
    if found is None:
        return None
    address = ip_address(found.partition("%")[0])
    if address.is_loopback:
        return None
    table = _routes4(proc) if isinstance(address, IPv4Address) else _routes6(proc)
    fitting = [route for route in table if address in route.network]
    # As the kernel does: the narrowest network, then the lowest metric.
    best = min(fitting, key=lambda route: (-route.network.prefixlen, route.metric), default=None)
    return None if best is None else best.interface


def speed_gbit(interface: str, sys_root: Path) -> float | None:
    """The nominal speed of `interface` in Gbit/s; None for a virtual one, whose number nothing holds it to."""
    folder = sys_root / "class" / "net" / interface
    if not (folder / "device").exists() or _word(folder / "device" / "vendor") in CLOUDS:
        return None
    try:
        megabits = int(_word(folder / "speed"))
    except ValueError:
        return None
    return megabits / 1000 if megabits > 0 else None


def _routes4(proc: Path) -> Iterator[Route]:
    for line in _lines(proc / "net" / "route")[1:]:
        interface, target, _, flags, _, _, metric, mask, *_ = line.split()
        if int(flags, 16) & (UP | REJECT) == UP:
            # Numbers in memory's own order.
            network, prefix = (int(word, 16).to_bytes(4, sys.byteorder) for word in (target, mask))
            length = int.from_bytes(prefix, "big").bit_count()
            yield Route(IPv4Network((network, length), strict=False), int(metric), interface)


def _routes6(proc: Path) -> Iterator[Route]:
    # The table has this machine's own addresses as routes to the loopback; another file says whose they are.
    for line in _lines(proc / "net" / "if_inet6"):
        target, *_, interface = line.split()
        yield Route(IPv6Network((bytes.fromhex(target), 128)), 0, interface)
    for line in _lines(proc / "net" / "ipv6_route"):
        target, prefix, *_, metric, _, _, flags, interface = line.split()
        if interface != "lo" and int(flags, 16) & (UP | REJECT) == UP:
            yield Route(IPv6Network((bytes.fromhex(target), int(prefix, 16)), strict=False), int(metric, 16), interface)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
