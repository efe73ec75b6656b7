"""What a container may have been given too little of: shared memory, and memory that may be locked."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def shared_memory(dev: Path) -> int | None:
    """The bytes of /dev/shm; None where there is none."""
    try:
        found = os.statvfs(dev / "shm")
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def locked_memory(proc: Path) -> float | None:
    """The bytes that this process may lock, infinite where there is no limit; None where the system does not say."""
    try:
        limits = (proc / "self" / "limits").read_text()
    except OSError:
        return None
    found = re.search(r"^Max locked memory\s+(\d+|unlimited)", limits, re.MULTILINE)
    if found is None:
        return None
    return math.inf if found[1] == "unlimited" else int(found[1])


def spell(size: float) -> str:
    """`4 B`, `64 MiB`, `1.5 GiB`, `unlimited`."""
    if math.isinf(size):
        return "unlimited"
    unit, name = next((unit, name) for unit, name in UNITS if size >= unit or unit == 1)
    return f"{size / unit:.3g} {name}"
