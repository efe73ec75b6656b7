"""A pipeline with fewer micro-batches than stages never fills."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.typical import number, typical_ms
from trainer.doctor.wording import share
from trainer.overlap.evidence import Evidence

# Micro-batches a stage that leave a fifth of a pipeline's time idle or less, which is where more stop paying off.
ENOUGH = 4


def look(evidence: Evidence) -> Finding | None:
    stages = int(number(evidence, "parallel.pipeline.size") or 1)
    pieces = int(number(evidence, "batch.microbatches") or 1)
    if pieces >= stages:
        return None
    wanted = ENOUGH * stages
    step_ms = typical_ms(evidence, "step", worst=True)
    # With p stages and m micro-batches of 1/m of the work, the last stage ends after m + p - 1 of them.
    now, then = ((count + stages - 1) / count for count in (pieces, wanted))
    return Finding(
        f"{stages} pipeline stages have {pieces} micro-batch{'es' if pieces > 1 else ''} to work on",
        f"A stage idles {share((stages - 1) / (pieces + stages - 1))} of the time while the pipeline fills and drains;"
        f" with {wanted} micro-batches {share((stages - 1) / (wanted + stages - 1))}.",
        f"batch.microbatches={wanted}",
        step_ms * (1 - then / now) if step_ms else None,
    )
