"""One stage of a pipeline has more to do than the others, which wait for it."""

from __future__ import annotations

import statistics

from trainer.doctor.finding import Finding
from trainer.doctor.part import mean_ms
from trainer.doctor.pipelined import Pipelined, pipelined
from trainer.doctor.typical import settled
from trainer.doctor.wording import ms, share
from trainer.overlap.evidence import Evidence
from trainer.overlap.meter import AWAITS

# The slowest stage's work beyond the mean, below which layers cannot be shared out much better.
UNEVEN = 0.1
# The others wait longer than the slowest, by this share of what they have less to do.
SEEN = 0.5
# In fewer windows than this noise can look like a habit.
WINDOWS = 4


def look(evidence: Evidence) -> Finding | None:
    at = pipelined(evidence)
    if at is None or not at.parts or len(settled(evidence)) < WINDOWS:
        return None
    busy = [mean_ms(evidence, ranks, "forward", "backward") for ranks in at.parts]
    waits = [mean_ms(evidence, ranks, *AWAITS) for ranks in at.parts]
    mean = statistics.fmean(busy)
    slowest = max(range(at.size), key=busy.__getitem__)
    others = [place for place in range(at.size) if place != slowest]
    less = busy[slowest] - statistics.fmean(busy[place] for place in others)
    waited = statistics.fmean(waits[place] for place in others)
    if busy[slowest] < (1 + UNEVEN) * mean or waited - waits[slowest] < SEEN * less:
        return None
    held = evidence.stages()[at.parts[slowest][0]]
    which = f"Stage {held[0]} has" if len(held) == 1 else f"Stages {', '.join(map(str, held))} have"
    how, advice = _change(evidence, at)
    return Finding(
        f"{which} more to do than the others, which wait",
        f"Forward and backward passes take {', '.join(ms(one) for one in busy)} a step on the ranks from the first"
        f" stage to the last; the slowest is {share(busy[slowest] / mean - 1)} above the mean. Its ranks wait"
        f" {ms(waits[slowest])} for neighbours, the others {ms(waited)}. {how}",
        advice,
        min(busy[slowest] - mean, waited),
    )


def _change(evidence: Evidence, at: Pipelined) -> tuple[str, str]:
    if evidence.option("parallel.pipeline.split", "auto") != "auto":
        return "The cut was given; measured times can decide it.", "parallel.pipeline.split=auto"
    fewer = max((size for size in range(2, at.size) if at.size % size == 0), default=None)
    if fewer is not None:
        how = "No cut between layers shares them out better; fewer stages have more layers each, which even out."
        return how, f"parallel.pipeline.size={fewer}"
    how = "No cut between layers shares them out better; several smaller stages on each rank may."
    if evidence.option("parallel.pipeline.schedule") == "auto":
        return how, f"parallel.pipeline.stages={at.stages + 1}"
    return how, "parallel.pipeline.schedule=auto"
