"""Fewer bytes would make the step shorter."""

from __future__ import annotations

from trainer.doctor.compress import choose, outcomes
from trainer.doctor.finding import Finding
from trainer.doctor.hooks import EXACT, rule_of_thumb
from trainer.doctor.situation import situation
from trainer.doctor.wording import ms, rate, share, size
from trainer.overlap.evidence import Evidence


def look(evidence: Evidence) -> Finding | None:
    at, present = situation(evidence), evidence.component("comm")
    if at is None or at.step is None or at.link is None or not at.exposes:
        return None
    others = [one for one in outcomes(at, str(evidence.option("precision"))) if one.hook.name != present]
    chosen = choose(others, at.step_ms)
    if chosen is None or chosen.hook is EXACT:
        return None
    predicted = ", ".join(f"{one.hook.name} {ms(one.tail_ms)}" for one in others)
    usual = rule_of_thumb(at.link.gbit * max(1, _ranks_a_host(evidence)))
    thumb = f" The rule of thumb for such a link is {usual}" + (
        ", too." if usual == chosen.hook.name else "; what was measured here wins."
    )
    residuals = f" It keeps what it does not send, in {size(at.step.gradient)} a rank." if chosen.hook.residual else ""
    return Finding(
        f"comm={chosen.hook.name} would save {share(chosen.gain_ms / at.step_ms)} of the step",
        f"{size(at.step.gradient)} of gradient travel at {rate(at.link.gbit)} a rank, and the last bucket arrives"
        f" {ms(at.step.tail_ms)} after the backward pass. Predicted for other hooks: {predicted}."
        f" {chosen.hook.name} is the gentlest of those that are about as fast as the fastest.{thumb}{residuals}",
        f"comm={chosen.hook.name}",
        chosen.gain_ms,
    )


def _ranks_a_host(evidence: Evidence) -> int:
    hosts = list(evidence.hosts)
    return max((hosts.count(host) for host in hosts), default=1)
