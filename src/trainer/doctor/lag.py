"""Which rank the others wait for."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trainer.overlap.evidence import Evidence, Window
from trainer.overlap.meter import AWAITS

# What a rank does before it waits for others, in the words of a finding.
WORK = {
    "data": "the loading of its batch",
    "forward": "its forward pass",
    "backward": "its backward pass",
    "optimizer": "its optimizer's step",
}


def complete(windows: Sequence[Window]) -> list[Window]:
    """The windows in which every one of two or more ranks measured all that tells who waits for whom."""
    needed = (*WORK, "peers")
    return [
        window
        for window in windows
        if len(window.ranks) > 1
        and all(math.isfinite(sums.get(name, math.nan)) for sums in window.ranks for name in needed)
    ]


def busy(sums: dict[str, float]) -> float:
    """Seconds a step in which a rank works, rather than waits for others."""
    return sum(sums[name] for name in WORK)


def idle(sums: dict[str, float]) -> float:
    """Seconds a step in which a rank waits for others, whether for those of its own stage or of neighbouring ones."""
    return sums["peers"] + sum(sums.get(lane, 0.0) for lane in AWAITS)


def beyond_others(window: Window, rank: int, others: Sequence[int], name: str | None = None) -> float:
    """Seconds a step by which a rank works longer than the median of `others`, in all or at one kind of work."""
    worked = [busy(sums) if name is None else sums[name] for sums in window.ranks]
    return worked[rank] - statistics.median(worked[other] for other in others)


def others_wait(window: Window, rank: int, others: Sequence[int]) -> float:
    """Seconds a step that the median of `others` waits longer for its peers than this rank."""
    return statistics.median(window.ranks[other]["peers"] for other in others) - window.ranks[rank]["peers"]


def longest(windows: Sequence[Window], rank: int, others: Sequence[int]) -> str:
    """The kind of work at which a rank is furthest beyond `others`."""
    return max(
        WORK, key=lambda name: statistics.median(beyond_others(window, rank, others, name) for window in windows)
    )


def name(evidence: Evidence, rank: int) -> str:
    """rank 3 on host1."""
    return f"rank {rank}" + (f" on {evidence.hosts[rank]}" if rank < len(evidence.hosts) else "")


def look_at(evidence: Evidence, rank: int) -> str:
    """What to type to see what keeps a rank's machine busy."""
    cuda = evidence.option("place.device") == "cuda"
    command = "nvidia-smi -q -d PERFORMANCE" if cuda else "top"
    # Nodes of a rehearsal share the name of their machine, and have their number behind it.
    machines = [host.partition(",")[0] for host in evidence.hosts]
    return f"ssh {machines[rank]} {command}" if len(set(machines)) > 1 and rank < len(machines) else command
