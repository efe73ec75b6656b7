"""The step waits for its batch."""

from __future__ import annotations

import statistics

from trainer.doctor import lag
from trainer.doctor.finding import Finding
from trainer.doctor.part import only, parts
from trainer.doctor.situation import NOTICEABLE
from trainer.doctor.typical import number, settled, typical_ms
from trainer.doctor.wording import ms, several, share
from trainer.overlap.evidence import Evidence

# Taking a batch over from a loader process costs a millisecond or two itself: less than this cannot be saved.
HANDOVER_MS = 2.0
# With none, as many as the image data sets start with.
FIRST_WORKERS = 2
# Loader processes beyond this are not what is missing: the disk or the decoding is.
MANY_WORKERS = 16


def look(evidence: Evidence) -> Finding | None:
    step_ms = typical_ms(evidence, "step", worst=True)
    # Of a pipeline the first stage reads data, on the first ranks; what later ones do waits for activations anyway.
    evidence = only(evidence, next(iter(parts(evidence)), []))
    waited = typical_ms(evidence, "data", worst=True)
    if not step_ms or waited is None or waited < max(HANDOVER_MS, NOTICEABLE * step_ms):
        return None
    workers, prefetch = number(evidence, "data.workers"), number(evidence, "data.prefetch") or 2
    if not workers:
        how, advice = "It is loaded between two steps, by the process that trains.", f"data.workers={FIRST_WORKERS}"
    elif workers < MANY_WORKERS:
        how = f"{several(int(workers), 'loader process')} a rank cannot keep up.".replace("processs", "processes")
        advice = f"data.workers={2 * int(workers)}"
    else:
        how = f"{int(workers)} loader processes keep {prefetch:g} batches each; deeper queues ride out uneven batches."
        advice = f"data.prefetch={2 * int(prefetch)}"
    return Finding(
        f"Every step waits {ms(waited)} for its batch",
        f"That is {share(waited / step_ms)} of a step of {ms(step_ms)}{_longest(evidence)}. {how}",
        advice,
        waited,
    )


def _longest(evidence: Evidence) -> str:
    """Which of several ranks waits longest, where that is known: all others wait for it in turn."""
    windows = lag.complete(settled(evidence))
    if not windows or len({len(window.ranks) for window in windows}) > 1:
        return ""
    waits = [
        statistics.median(sums["data"] for sums in ranks) for ranks in zip(*(w.ranks for w in windows), strict=True)
    ]
    rank = max(range(len(waits)), key=lambda one: waits[one])
    others = statistics.median(waits[:rank] + waits[rank + 1 :])
    return f"; {lag.name(evidence, rank)} waits longest, the others {ms(others * 1000)}"
