"""What stages send each other takes long, and they wait for it."""

from __future__ import annotations

import statistics

from trainer.doctor.finding import Finding
from trainer.doctor.pipelined import Pipelined, costs, forecast_ms, merged, pipelined
from trainer.doctor.situation import NOTICEABLE
from trainer.doctor.wording import ms, share
from trainer.overlap.evidence import Evidence
from trainer.pipeline.simulate import Costs

# A message that takes less than this share of the work on its micro-batch hides beside it in any schedule.
LONG = 0.1


def look(evidence: Evidence) -> Finding | None:
    at, work = pipelined(evidence), costs(evidence)
    if at is None or work is None or at.beyond_ms < NOTICEABLE * at.step_ms:
        return None
    hop = max(work.hop)
    computed = statistics.fmean(
        sum(parts) for parts in zip(work.forward, work.backward_input, work.backward_weight, strict=True)
    )
    if hop < LONG * computed:
        return None
    now = forecast_ms(at, at.schedule, at.size, at.microbatches, work)
    change = now and (_eager(at, work, now) or _fewer(at, work, now))
    if not change:
        return None
    how, advice, gain = change
    if gain < NOTICEABLE * at.step_ms:
        return None
    return Finding(
        f"A message between stages takes {ms(hop)}, and they wait for it",
        f"That is {share(hop / computed)} of the {ms(computed)} that a stage computes on a micro-batch. Ranks wait"
        f" {ms(at.bubble_ms)} a step for neighbouring stages, {ms(at.beyond_ms)} of that beyond what filling and"
        f" draining takes. {how}",
        advice,
        # No more than what was seen to be waited can be gained.
        min(gain, at.beyond_ms),
    )


def _eager(at: Pipelined, work: Costs, now: float) -> tuple[str, str, float] | None:
    """More micro-batches under way, so that nobody waits for the round trip of one."""
    if at.schedule != "1f1b" or at.stages > 1:
        return None
    then = forecast_ms(at, "eager_1f1b", at.size, at.microbatches, work)
    if then is None or now - then < NOTICEABLE * at.step_ms:
        return None
    how = (
        f"With 1f1b every micro-batch waits for the way there and back; with more of them under way a step's passes"
        f" would take {ms(then)} instead of {ms(now)}, by simulation, and hold about twice the activations."
    )
    return how, "parallel.pipeline.schedule=eager_1f1b", now - then


def _fewer(at: Pipelined, work: Costs, now: float) -> tuple[str, str, float] | None:
    """Half as many stages, twice as large, and twice as many replicas with half of the micro-batches each."""
    if at.size % 2 or at.size < 4 or at.microbatches % 2 or at.stages > 1:
        return None
    then = forecast_ms(at, at.schedule, at.size // 2, at.microbatches // 2, merged(work, 2))
    if then is None:
        return None
    how = (
        f"With {at.size // 2} stages, which are twice as large, a step's passes would take {ms(then)} instead of"
        f" {ms(now)}, by simulation; a rank then holds twice as many parameters."
    )
    return how, f"parallel.pipeline.size={at.size // 2}", now - then
