"""A pipeline that fills and drains for a large part of a step."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.pipelined import Pipelined, pipelined
from trainer.doctor.situation import replicas
from trainer.doctor.typical import number
from trainer.doctor.wording import ms, several, share
from trainer.overlap.evidence import Evidence

# Below this share of a step, smaller micro-batches may well cost more than the bubble shrinks: on two CPU cores,
# halving those of 16 samples made a step longer whose bubble was a fifth.
LARGE = 0.25
# So many micro-batches a rank leave at most a fifth of a step idle; more of them compute less efficiently each.
ENOUGH = 4
# The arithmetic is believed where the measured waiting is at least this share of it.
SEEN = 0.5


def look(evidence: Evidence) -> Finding | None:
    at = pipelined(evidence)
    if at is None:
        return None
    now = at.least_bubble(at.microbatches)
    wanted = _wanted(evidence, at)
    if now < LARGE or at.bubble < SEEN * now or wanted is None:
        return None
    accumulated = _accumulated(evidence)
    then = at.least_bubble(wanted * accumulated)
    # What a pipeline idles while it fills and drains is the same work in smaller pieces.
    idle_ms = min(at.bubble_ms, now * at.step_ms)
    return Finding(
        f"The pipeline of {at.size} ranks has only {several(at.microbatches, 'micro-batch').replace('chs', 'ches')}",
        f"While it fills and drains, its ranks idle {share(now)} of a step with {at.schedule}; they were seen to wait"
        f" {ms(at.bubble_ms)} for each other, {share(at.bubble)}. With {wanted * accumulated} it would be"
        f" {share(then)}. They are smaller, and compute less efficiently where they no longer fill the device.",
        f"parallel.pipeline.microbatches={wanted}",
        idle_ms * (1 - at.microbatches / (wanted * accumulated)),
    )


def _wanted(evidence: Evidence, at: Pipelined) -> int | None:
    """The smallest number that is enough and divides what a replica computes at once, or the largest there is."""
    accumulated, size = _accumulated(evidence), number(evidence, "batch.size")
    if size is None or size < 1:
        return None
    samples = int(size) // replicas(evidence) // accumulated
    multiple = at.size if at.schedule == "interleaved" else 1
    more = [
        count
        for count in range(multiple, 4 * ENOUGH * at.size + 1, multiple)
        if count * accumulated > at.microbatches and count <= samples and samples % count == 0
    ]
    return next((count for count in more if count >= ENOUGH * at.size), more[-1] if more else None)


def _accumulated(evidence: Evidence) -> int:
    return max(1, int(number(evidence, "batch.microbatches") or 1))
