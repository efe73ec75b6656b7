"""GPUs that have nothing to do again and again."""

from __future__ import annotations

import statistics

from trainer.doctor.finding import Finding
from trainer.doctor.typical import metric, settled, typical_ms
from trainer.doctor.wording import ms
from trainer.overlap.evidence import Evidence
from trainer.overlap.meter import AWAITS

# Percent. A sample covers a sixth of a second and more: it is nearly zero only if nothing ran in all of it.
IDLE = 5
# Below this mean the GPU is idle all the time, and what is too small is the work.
BUSY = 20
# Lines of metrics; a dip in fewer, or in less than half of them, may be an evaluation or a checkpoint.
LINES = 3


def look(evidence: Evidence) -> Finding | None:
    lowest, mean = metric(evidence, "gpu/utilisation/worst")[1:], metric(evidence, "gpu/utilisation")[1:]
    dips = [value for value in lowest if value <= IDLE]
    if len(dips) < LINES or len(dips) * 2 < len(lowest) or not mean or sum(mean) / len(mean) < BUSY:
        return None
    parts = {
        "waiting for data": (typical_ms(evidence, "data", worst=True), "data.workers=4"),
        "exposed communication": (typical_ms(evidence, "exposed", worst=True), "profile=window"),
        "waiting for neighbouring stages": (_bubble_ms(evidence), "parallel.pipeline.schedule=auto"),
    }
    known = {name: (value, advice) for name, (value, advice) in parts.items() if value}
    largest = max(known, key=lambda name: known[name][0], default=None)
    why, advice = "", "profile=window"
    if largest is not None:
        value, advice = known[largest]
        why = f" Of a step in which nothing computes, {largest} is the largest part: {ms(value)}."
    return Finding(
        "GPU utilisation falls to zero again and again",
        f"In {len(dips)} of {len(lowest)} stretches between two lines of metrics a GPU was idle for a whole sample,"
        f" while it is {sum(mean) / len(mean):.0f} % busy in the mean.{why}",
        advice,
        None,
    )


def _bubble_ms(evidence: Evidence) -> float:
    """What the rank of a pipeline that waits most for others waits in a step."""
    waits = [
        max((sum(sums.get(lane, 0.0) for lane in AWAITS) for sums in window.ranks), default=0.0)
        for window in settled(evidence)
    ]
    return statistics.median(waits) * 1000 if waits else 0.0
