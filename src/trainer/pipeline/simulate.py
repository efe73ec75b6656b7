"""When everything in a schedule would happen: bubbles, and deadlocks, without a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainer.pipeline.actions import Action, Plan, needs, stages_of


class Deadlock(ValueError):
    """A plan in which some actions can never run; the message says who waits for what."""


class Costs(NamedTuple):
    """Seconds, or any other unit of time, of each stage's work on one micro-batch."""

    forward: Sequence[float]
    backward_input: Sequence[float]
    backward_weight: Sequence[float]
    hop: Sequence[float]
    """the time of the activations, and of their gradient, from stage s to s + 1"""

    def of(self, action: Action) -> float:
        stage = action.stage
        match action.kind:
            case "F":
                return self.forward[stage]
            case "I":
                return self.backward_input[stage]
            case "W":
                return self.backward_weight[stage]
        return self.backward_input[stage] + self.backward_weight[stage]


def alike(stages: int, hop: float = 0.0) -> Costs:
    """Stages that all take one unit for a forward pass and two for a backward pass."""
    return Costs([1.0] * stages, [1.0] * stages, [1.0] * stages, [hop] * (stages - 1))


class Slot(NamedTuple):
    """An action and its time."""

    action: Action
    start: float
    end: float


class Forecast(NamedTuple):
    """A plan, carried out."""

    slots: list[list[Slot]]
    """of each rank"""

    @property
    def duration(self) -> float:
        return max(slot.end for slots in self.slots for slot in slots)

    @property
    def bubble(self) -> float:
        """The share of all ranks' time in which they do nothing."""
        busy = sum(slot.end - slot.start for slots in self.slots for slot in slots)
        return 1 - busy / (len(self.slots) * self.duration)


def simulate(plan: Plan, costs: Costs) -> Forecast:
    """Carry out `plan`: receives are always posted, sends never block, and each link carries one message at a time.

    Raises Deadlock.
    """
    last = stages_of(plan) - 1
    # When the result of an action is where it is needed: on its own rank, and at the neighbour that waits for it.
    ended: dict[Action, float] = {}
    arrived: dict[Action, float] = {}
    link_free: dict[tuple[int, bool], float] = {}
    free = [0.0] * len(plan)
    slots: list[list[Slot]] = [[] for _ in plan]
    while any(len(done) < len(actions) for done, actions in zip(slots, plan, strict=True)):
        ready = []
        for rank, (done, actions) in enumerate(zip(slots, plan, strict=True)):
            if len(done) == len(actions):
                continue
            action = actions[len(done)]
            times = [(ended if need.stage == action.stage else arrived).get(need) for need in needs(action, last)]
            if None not in times:
                ready.append((max([free[rank], *(time for time in times if time is not None)]), rank, action))
        if not ready:
            raise Deadlock(_who_waits(plan, slots, ended, last))
        start, rank, action = min(ready)
        end = start + costs.of(action)
        ended[action] = free[rank] = end
        slots[rank].append(Slot(action, start, end))
        onward = action.kind == "F"
        if action.kind != "W" and (action.stage < last if onward else action.stage > 0):
            hop = costs.hop[action.stage if onward else action.stage - 1]
            arrived[action] = link_free[rank, onward] = max(end, link_free.get((rank, onward), 0.0)) + hop
    return Forecast(slots)


def bound(costs: Costs, microbatches: int) -> float:
    """No schedule with one stage a rank and whole backward passes is faster.

    A stage gets its first micro-batch through all before it, works on all of them, and the last one's gradient goes
    back through all before it.
    """
    work = [sum(parts) for parts in zip(costs.forward, costs.backward_input, costs.backward_weight, strict=True)]
    return max(microbatches * own + sum(work[:stage]) + 2 * sum(costs.hop[:stage]) for stage, own in enumerate(work))


def _who_waits(plan: Plan, slots: list[list[Slot]], ended: dict[Action, float], last: int) -> str:
    lines = []
    for rank, (done, actions) in enumerate(zip(slots, plan, strict=True)):
        if len(done) < len(actions):
            action = actions[len(done)]
            missing = next(need for need in needs(action, last) if need not in ended)
            lines.append(f"rank {rank} cannot run {action} before {missing}")
    return "; ".join(lines)
