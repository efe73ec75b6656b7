"""What another hook would make of the run's own step."""

from __future__ import annotations

from typing import NamedTuple

from trainer.doctor.forecast import as_it_is, measured_cost, tail_ms
from trainer.doctor.hooks import EXACT, Hook, candidates
from trainer.doctor.recorded import Step
from trainer.doctor.situation import Situation

# A prediction below this share of the step is not acted upon: the table's costs are of another machine.
WORTHWHILE = 0.10
# A gentler hook is preferred to a harsher one whose step would be shorter by less than this share.
GENTLER = 0.05


class Outcome(NamedTuple):
    hook: Hook
    tail_ms: float
    gain_ms: float


def outcome(hook: Hook, at: Situation, step: Step) -> Outcome:
    """The tail with `hook` in place of the run's own: its bytes at the measured rate, and its encoding in line."""
    assert at.link is not None, "a step was recorded"
    link = at.link
    now = tail_ms(as_it_is(step), measured_cost(step, link), step.backward_end_ms)

    def cost(size: float) -> float:
        return hook.encode_ms(size, at.device) + link.ms(hook.sent(size, at.replicas), hook.starts)

    then = tail_ms(as_it_is(step), cost, step.backward_end_ms)
    # No more than what is exposed in a typical step can be gained, whatever the recorded one was like.
    return Outcome(hook, then, min(now - then, at.exposed_ms))


def outcomes(at: Situation, precision: str) -> list[Outcome]:
    """Every hook of the table, from gentle to harsh; nothing where no step was recorded."""
    if at.step is None or at.link is None:
        return []
    return [outcome(hook, at, at.step) for hook in (EXACT, *candidates(precision))]


def choose(found: list[Outcome], step_ms: float) -> Outcome | None:
    """The gentlest of those that are worth it and about as fast as the fastest; None where none is worth it."""
    worth = [one for one in found if one.gain_ms >= WORTHWHILE * step_ms]
    if not worth:
        return None
    shortest = min(step_ms - one.gain_ms for one in worth)
    return next(one for one in worth if step_ms - one.gain_ms <= (1 + GENTLER) * shortest)
