"""Encoding takes longer than the bytes that it saves."""

from __future__ import annotations

from trainer.doctor.compress import choose, outcomes
from trainer.doctor.finding import Finding
from trainer.doctor.hooks import COMPRESSING, EXACT
from trainer.doctor.recorded import travel_ms
from trainer.doctor.situation import situation
from trainer.doctor.wording import ms, rate
from trainer.overlap.evidence import Evidence


def look(evidence: Evidence) -> Finding | None:
    at, present = situation(evidence), evidence.component("comm")
    if at is None or at.step is None or at.link is None or present not in COMPRESSING:
        return None
    others = [one for one in outcomes(at, str(evidence.option("precision"))) if one.hook.name != present]
    chosen = choose(others, at.step_ms)
    if chosen is None or chosen.hook is not EXACT:
        return None
    step, link = at.step, at.link
    dense = EXACT.sent(step.gradient, at.replicas)
    return Finding(
        f"comm={present} costs more than it saves",
        f"A step's buckets take {ms(sum(travel_ms(step.buckets)))} with encoding and decoding, of which exchanges are"
        f" {ms(sum(travel_ms(step.exchanges)))}. In full precision they would travel for"
        f" {ms(link.ms(dense, len(step.buckets)))} at the measured {rate(link.gbit)}.",
        "comm=allreduce",
        chosen.gain_ms,
    )
