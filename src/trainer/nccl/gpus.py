"""This machine's GPUs and how they reach each other, as NVML tells, which starts no CUDA."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import combinations
from types import ModuleType
from typing import Any, NamedTuple

# NVML's own numbers, which never change; the package has one of them by mistake as a tuple, which NVML refuses.
CAN_READ, BY_NVLINK = 0, 2
DIRECT, NOT_TOLD = 0, 6
# The nearest thing that two GPUs have in common: a board, one switch, several, the host's bridge, its node, the system.
WORDS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


class Gpus(NamedTuple):
    """None is what NVML does not tell."""

    number: int | None = None
    nvlink: bool | None = None
    """whether any has an NVLink that is up"""
    paths: frozenset[str] | None = None
    """the words between pairs of them: NV where NVLink joins the two, else PIX, PXB, PHB, NODE or SYS"""
    peer_access: bool | None = None
    """whether each may read the memory of each other; False where none may"""


UNKNOWN = Gpus()


def look() -> Gpus:
    """What NVML tells; nothing where pynvml (the package nvidia-ml-py) or the driver is not."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # a missing package, library or driver, each with an error of its own
        return UNKNOWN
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        found = Gpus(len(handles), _have_nvlink(pynvml, handles))
        # Older drivers, and virtual machines, may not tell of pairs; then nothing is taken from those that are told.
        with contextlib.suppress(pynvml.NVMLError):
            found = found._replace(paths=_paths(pynvml, handles))
        with contextlib.suppress(pynvml.NVMLError):
            found = found._replace(peer_access=_peer_access(pynvml, handles))
        return found
    except pynvml.NVMLError:
        return UNKNOWN
    finally:
        pynvml.nvmlShutdown()


def _have_nvlink(nvml: ModuleType, handles: Sequence[Any]) -> bool:
    for handle in handles:
        # A GPU without NVLink, or with fewer of them, answers with an error.
        with contextlib.suppress(nvml.NVMLError):
            for link in range(nvml.NVML_NVLINK_MAX_LINKS):
                if nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED:
                    return True
    return False


def _paths(nvml: ModuleType, handles: Sequence[Any]) -> frozenset[str] | None:
    words = set()
    for one, other in combinations(handles, 2):
        joined = nvml.nvmlDeviceGetP2PStatus(one, other, BY_NVLINK) == DIRECT
        words.add("NV" if joined else WORDS.get(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)))
    return None if None in words else frozenset(word for word in words if word)


def _peer_access(nvml: ModuleType, handles: Sequence[Any]) -> bool | None:
    states = [nvml.nvmlDeviceGetP2PStatus(one, other, CAN_READ) for one, other in combinations(handles, 2)]
    if not states or NOT_TOLD in states:
        return None
    able = {state == DIRECT for state in states}
    # Where some pairs may and others may not, neither can be said of the machine.
    return able.pop() if len(able) == 1 else None
