"""Communication runs, and next to nothing computes beside it."""

from __future__ import annotations

from trainer.doctor.compress import choose, outcomes
from trainer.doctor.finding import Finding
from trainer.doctor.forecast import Size, best_size, limited_by_cap, measured_cost, stretched, tail_ms
from trainer.doctor.recorded import Step, travel_ms
from trainer.doctor.situation import NOTICEABLE, Situation, situation
from trainer.doctor.typical import bucket_cap, number
from trainer.doctor.wording import ms, several, share, size
from trainer.overlap.evidence import Evidence

# A tenth stays unhidden in good runs as well; a tenth that is hidden is what happens without any overlap, by chance.
NOTHING = 0.1
# Buckets that all come in the last quarter of the backward pass leave three quarters of it unused.
LATE = 0.75
# Travel this many times as long as the backward pass cannot be hidden beyond NOTHING, however the buckets are cut.
HOPELESS = 1 / NOTHING


def look(evidence: Evidence) -> Finding | None:
    at = situation(evidence)
    if at is None or at.hidden >= NOTHING or not at.exposes:
        return None
    if at.peers_ms > at.exposed_ms / 2:
        return None  # it is waiting for a rank, not for bytes
    seen = f"{ms(at.exposed_ms)} of {ms(at.comm_ms)} of communication are exposed, in a step of {ms(at.step_ms)}."
    if at.step is None or at.link is None:
        return Finding("Nothing overlaps", f"{seen} No recorded step tells why.", "log.every=1", None)
    step = at.step
    better = best_size(step, at.link, at.step_ms, at.exposed_ms)
    cap = bucket_cap(evidence)
    worth = better.gain_ms >= NOTICEABLE * at.step_ms and limited_by_cap(step, cap)
    if len(step.buckets) == 1 and worth:
        return _single_bucket(cap, step, better, seen)
    accumulated = _accumulation(evidence, at, step, seen)
    if accumulated is not None:
        return accumulated
    if len(step.buckets) == 1:
        return _indivisible(evidence, step, limited_by_cap(step, cap), seen)
    travelled = sum(travel_ms(step.buckets))
    if travelled > HOPELESS * step.backward_ms:
        return _too_long(evidence, at, step, travelled, seen)
    first = (step.buckets[0].ready_ms - step.backward_start_ms) / step.backward_ms if step.backward_ms > 0 else 0.0
    if first >= LATE:
        return _late(evidence, step, better if worth else None, first, seen)
    return Finding("Nothing overlaps", f"{seen} The recorded step does not tell why.", "profile=window", None)


def _single_bucket(cap: float | None, step: Step, better: Size, seen: str) -> Finding:
    why = f"The gradient of {size(step.gradient)} fits into one bucket"
    if cap is not None:
        why = f"parallel.data.bucket_cap_mb={cap:g} is more than the gradient's {size(step.gradient)}"
    return Finding(
        "Nothing overlaps: all gradients travel in one bucket",
        f"{why}, so it leaves when the backward pass of {ms(step.backward_ms)} is over. {seen}"
        f" In {several(better.buckets, 'bucket')} of {better.size_mb} MiB, at the measured rate, the last one would"
        f" arrive {ms(better.tail_ms)} after the backward pass instead of {ms(step.tail_ms)}.",
        f"parallel.data.bucket_cap_mb={better.size_mb}",
        better.gain_ms,
    )


def _accumulation(evidence: Evidence, at: Situation, step: Step, seen: str) -> Finding | None:
    """Gradients travel in the last micro-batch's backward pass only; fewer micro-batches make that one longer."""
    pieces = int(number(evidence, "batch.microbatches") or 1)
    if pieces < 2 or number(evidence, "parallel.pipeline.size") not in (None, 1):
        return None
    assert at.link is not None, "a step was recorded"
    fewer = pieces // 2
    buckets, end = stretched(step, pieces / fewer)
    gain = step.tail_ms - tail_ms(buckets, measured_cost(step, at.link), end)
    if gain < NOTICEABLE * at.step_ms:
        return None
    return Finding(
        "Nothing overlaps: gradients travel in the last micro-batch only",
        f"{pieces} micro-batches are accumulated before one reduction, which can hide in the last one's backward pass"
        f" of {ms(step.backward_ms)} and in nothing before it. {seen} Fewer and larger micro-batches need more memory.",
        f"batch.microbatches={fewer}",
        gain,
    )


def _too_long(evidence: Evidence, at: Situation, step: Step, travelled: float, seen: str) -> Finding:
    chosen = choose(outcomes(at, str(evidence.option("precision"))), at.step_ms)
    title = "Nothing overlaps: the backward pass is too short for what travels"
    why = f"The backward pass takes {ms(step.backward_ms)}, the buckets travel for {ms(travelled)}. {seen}"
    if chosen is None or chosen.hook.name in ("allreduce", evidence.component("comm")):
        return Finding(title, f"{why} More samples a step compute longer for the same bytes.", _more(evidence), None)
    return Finding(title, f"{why} Fewer bytes are what is left.", f"comm={chosen.hook.name}", chosen.gain_ms)


def _indivisible(evidence: Evidence, step: Step, small: bool, seen: str) -> Finding:
    title = f"Nothing overlaps: the gradient of {size(step.gradient)} travels in one bucket"
    why = f"{seen} Smaller buckets would save too little. More samples a step compute longer for the same bytes."
    if not small:
        title = "Nothing overlaps: one tensor holds most of the gradient"
        why = (
            f"All {size(step.gradient)} of gradient are one bucket, larger than parallel.data.bucket_cap_mb allows: DDP"
            f" never cuts a tensor. {seen} More samples a step compute longer for the same bytes."
        )
    return Finding(title, why, _more(evidence), None)


def _more(evidence: Evidence) -> str:
    return f"batch.size={2 * int(number(evidence, 'batch.size') or 64)}"


def _late(evidence: Evidence, step: Step, better: Size | None, first: float, seen: str) -> Finding:
    title = "Nothing overlaps: the first bucket leaves only at the end of the backward pass"
    why = f"The first of {len(step.buckets)} buckets was full after {share(first)} of the backward pass. {seen}"
    if evidence.option("parallel.data.find_unused_parameters") is True:
        return Finding(
            title,
            f"{why} With find_unused_parameters buckets keep the order in which layers were made, not that in which"
            " gradients come, and one late gradient holds back every bucket behind its own.",
            "parallel.data.find_unused_parameters=false",
            None,
        )
    if better is not None:
        return Finding(
            title,
            f"{why} Buckets of {better.size_mb} MiB would leave earlier: the last one would arrive"
            f" {ms(better.tail_ms)} after the backward pass instead of {ms(step.tail_ms)}.",
            f"parallel.data.bucket_cap_mb={better.size_mb}",
            better.gain_ms,
        )
    return Finding(title, f"{why} Smaller buckets would not change that.", "profile=window", None)
