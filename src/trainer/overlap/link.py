"""The link that carries a rank's traffic to other hosts, as the system names its speed."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM = Path("/sys/class/net")
ROUTES = Path("/proc/net/route")


def interface() -> str | None:
    """The network interface that collectives use: the one that is named to Gloo or NCCL, or the default route's."""
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        # NCCL also takes lists, prefixes and "=name", whose meaning is its own.
        if os.environ.get(variable, "").isidentifier():
            return os.environ[variable]
    if not ROUTES.exists():
        return None
    routes = [line.split() for line in ROUTES.read_text().splitlines()[1:]]
    return next((route[0] for route in routes if route[1] == "00000000"), None)


def speed_gbit() -> float | None:
    """The nominal speed of that interface in Gbit/s; None where it is not known, as for most virtual ones."""
    name = interface()
    # A virtual interface names a speed that nothing holds it to.
    if not (SYSTEM / str(name) / "device").exists():
        return None
    try:
        megabits = int((SYSTEM / str(name) / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits / 1000 if megabits > 0 else None
