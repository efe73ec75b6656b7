"""The guard had to take back what was traded for speed."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.overlap.evidence import Evidence


def look(evidence: Evidence) -> Finding | None:
    levels = evidence.series("guard/level")
    lowered = [(step, level) for step, level in levels if level > 0]
    if not lowered:
        return None
    first, lines = lowered[0][0], len(lowered)
    ended = f"and ended {int(levels[-1][1])} down" if levels[-1][1] > 0 else "and was as asked for again at the end"
    return Finding(
        "The run did not converge as it was asked to go",
        f"The guard stepped down first after step {first}, was down in {lines} of {len(levels)} lines, {ended}. The log"
        " says why each time.",
        "sync=strict" if evidence.component("sync") != "strict" else "comm=allreduce",
        None,
    )
