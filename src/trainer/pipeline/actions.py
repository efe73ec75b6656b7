"""What a rank of a pipeline does, as data: a list of actions for each rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Kind = Literal["F", "B", "I", "W"]


class Action(NamedTuple):
    """One piece of work of one stage on one micro-batch.

    F is the forward pass and B the backward pass. Schedules that split it have I, which computes the gradient of the
    stage's input, and W, which computes those of its weights. What travels follows from it: after F the activations, to
    the next stage, and after B or I their gradient, to the one before.
    """

    kind: Kind
    stage: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.microbatch} of stage {self.stage}"


Plan = Sequence[Sequence[Action]]
"""the actions of each rank, in their order"""


def stages_of(plan: Plan) -> int:
    """The number of stages; stage s is on rank s mod ranks, so that a rank's stages are as far apart as can be."""
    return 1 + max(action.stage for actions in plan for action in actions)


def needs(action: Action, last_stage: int) -> Iterator[Action]:
    """What must be done, here or elsewhere, before `action` can be; of B and I only the one that the schedule has."""
    kind, stage, microbatch = action
    if kind == "F" and stage > 0:
        yield Action("F", stage - 1, microbatch)
    if kind in ("B", "I"):
        yield Action("F", stage, microbatch)
        if stage < last_stage:
            yield Action(kind, stage + 1, microbatch)
    if kind == "W":
        yield Action("I", stage, microbatch)


def in_flight(actions: Sequence[Action]) -> int:
    """The most micro-batches whose activations a rank holds at once, counted once for each of its stages."""
    held = most = 0
    for action in actions:
        held += {"F": 1, "B": -1, "I": 0, "W": -1}[action.kind]
        most = max(most, held)
    return most


def held(plan: Plan) -> list[float]:
    """Of each stage, the most micro-batches whose activations its rank holds at once for it, evenly shared out."""
    stages = stages_of(plan)
    return [in_flight(plan[stage % len(plan)]) * len(plan) / stages for stage in range(stages)]


def arrivals(plan: Plan, rank: int, kind: Literal["F", "B"]) -> list[tuple[int, int]]:
    """What comes to `rank` for its actions of one direction, as (stage, micro-batch), in the order in which it is sent.

    `stage` is the one on `rank` that receives it.
    """
    ranks, last = len(plan), stages_of(plan) - 1
    if kind == "F":
        sender = plan[(rank - 1) % ranks]
        return [(a.stage + 1, a.microbatch) for a in sender if a.kind == "F" and a.stage < last]
    sender = plan[(rank + 1) % ranks]
    return [(a.stage - 1, a.microbatch) for a in sender if a.kind in ("B", "I") and a.stage > 0]
