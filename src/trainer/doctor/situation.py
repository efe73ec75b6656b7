"""What most rules start from: the shares of a typical step, a recorded one, and what the link costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainer.doctor.forecast import believable
from trainer.doctor.link import Link, fit
from trainer.doctor.part import reducing
from trainer.doctor.recorded import Step, recorded, typical
from trainer.doctor.typical import number, typical_ms
from trainer.overlap.evidence import Evidence

# Below this share of a step, what is exposed is not worth a change: steps vary by as much.
NOTICEABLE = 0.05


class Situation(NamedTuple):
    """A run whose ranks communicate. Of a pipeline it is the stage whose gradients hold up the next step."""

    replicas: int
    """ranks that average their gradients"""
    device: str
    hosts: Sequence[str]
    """of the ranks that average their gradients, as far as known"""
    step_ms: float
    """of the slowest rank"""
    comm_ms: float
    exposed_ms: float
    peers_ms: float
    """the part of communication that only waited for slower ranks"""
    step: Step | None
    """a typical step, span by span, if one was recorded"""
    link: Link | None
    """if a step was recorded, and the link explains how long its buckets took"""

    @property
    def exposed_share(self) -> float:
        return self.exposed_ms / self.step_ms

    @property
    def hidden(self) -> float:
        """The share of communication beside which something computed."""
        return 1 - self.exposed_ms / self.comm_ms

    @property
    def exposes(self) -> bool:
        """Whether communication costs enough to be worth a change."""
        return self.exposed_share >= NOTICEABLE


def ranks(evidence: Evidence) -> int:
    """The number of processes, by whatever tells it."""
    named = (number(evidence, "place.processes") or 0) * (number(evidence, "place.nodes") or 1)
    return len(evidence.hosts) or max((len(window.ranks) for window in evidence.windows), default=int(named))


def shared_out(evidence: Evidence) -> bool:
    """Whether parameters are shared out over the replicas, and gathered in every pass."""
    return evidence.option("parallel.data.shard") is True and replicas(evidence) > 1


def situation(evidence: Evidence) -> Situation | None:
    """None where there is nothing to say about communication: one process, no measurement, or nothing that travels.

    Of a model that is shared out as well: buckets and hooks, which rules with a situation are about, are DDP's.
    """
    if shared_out(evidence):
        return None
    part, exposed_ms = reducing(evidence)
    step_ms, comm_ms = typical_ms(evidence, "step", worst=True), typical_ms(part, "comm")
    if ranks(evidence) < 2 or not step_ms or not comm_ms or exposed_ms is None or evidence.component("comm") == "noop":
        return None
    device = str(evidence.option("place.device", "cpu"))
    steps = recorded(part)
    step, link = typical(steps), fit(steps, device)
    return Situation(
        replicas=replicas(evidence),
        device=device,
        hosts=part.hosts,
        step_ms=step_ms,
        comm_ms=comm_ms,
        exposed_ms=exposed_ms,
        peers_ms=typical_ms(part, "peers") or 0.0,
        step=step,
        link=link if step and link and believable(step, link, step_ms) else None,
    )


def replicas(evidence: Evidence) -> int:
    """The number of ranks that have the same part of the model."""
    named = number(evidence, "parallel.data.size") or -1
    if named > 0:
        return int(named)
    others = (number(evidence, f"parallel.{axis}.size") or 1 for axis in ("pipeline", "tensor"))
    size = ranks(evidence)
    for other in others:
        size //= max(1, int(other))
    return max(1, size)
