"""When everything in a schedule would happen: bubbles, and deadlocks, without a process."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
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


@dataclass
class _Message:
    """What an action gives to a neighbour, under way."""

    action: Action
    receiver: int
    left: float
    """of its way, the time that it needs without others beside it"""


class _Trip(NamedTuple):
    shared: int
    """times as long as alone it takes"""
    end: float
    """as long as nothing else begins or ends"""


Way = tuple[int, bool]
"""from a rank onward, or back"""


@dataclass
class _State:
    slots: list[list[Slot]]
    """of each rank, what it has done and what it does"""
    now: float = 0.0
    busy: set[int] = field(default_factory=set)
    """the ranks that do something"""
    ended: set[Action] = field(default_factory=set)
    arrived: set[Action] = field(default_factory=set)
    """the actions whose results are at the neighbour that waits for them"""
    ways: dict[Way, collections.deque[_Message]] = field(default_factory=dict)
    """what is sent and has not arrived"""


def simulate(plan: Plan, costs: Costs) -> Forecast:
    """Carry out `plan`: receives are always posted, and sends never block.

    1. A rank begins its next action as soon as what that needs is there. 2. What it gives to a neighbour travels behind
    all that went the same way before. 3. What goes or comes several ways at once shares, evenly, what its sender can
    send and what its receiver can receive. Raises Deadlock.
    """
    state, last = _State([[] for _ in plan]), stages_of(plan) - 1
    while True:
        _begin(plan, costs, state, last)
        trips = _trips(state)
        ends = [state.slots[rank][-1].end for rank in state.busy] + [trip.end for trip in trips.values()]
        if not ends:
            break
        _travel(state, trips, min(ends))
        for rank in [rank for rank in state.busy if state.slots[rank][-1].end <= state.now]:
            _finish(state, rank, len(plan), costs, last)
    if any(len(done) < len(actions) for done, actions in zip(state.slots, plan, strict=True)):
        raise Deadlock(_who_waits(plan, state.slots, state.ended, last))
    return Forecast(state.slots)


def _begin(plan: Plan, costs: Costs, state: _State, last: int) -> None:
    for rank, (actions, done) in enumerate(zip(plan, state.slots, strict=True)):
        if rank in state.busy or len(done) == len(actions):
            continue
        action = actions[len(done)]
        if all(need in (state.ended if need.stage == action.stage else state.arrived) for need in needs(action, last)):
            done.append(Slot(action, state.now, state.now + costs.of(action)))
            state.busy.add(rank)


def _trips(state: _State) -> dict[Way, _Trip]:
    """What is under way now, the first message of each way."""
    first = {way: queue[0] for way, queue in state.ways.items() if queue}
    sent = collections.Counter(sender for sender, _ in first)
    received = collections.Counter(message.receiver for message in first.values())
    trips = {}
    for way, message in first.items():
        shared = max(sent[way[0]], received[message.receiver])
        trips[way] = _Trip(shared, state.now + message.left * shared)
    return trips


def _travel(state: _State, trips: dict[Way, _Trip], until: float) -> None:
    for way, (shared, end) in trips.items():
        if end <= until:
            state.arrived.add(state.ways[way].popleft().action)
        else:
            state.ways[way][0].left -= (until - state.now) / shared
    state.now = until


def _finish(state: _State, rank: int, ranks: int, costs: Costs, last: int) -> None:
    """The rank has done what it did, and sends what it gives."""
    action = state.slots[rank][-1].action
    state.busy.remove(rank)
    state.ended.add(action)
    onward = action.kind == "F"
    if action.kind == "W" or action.stage == (last if onward else 0):
        return
    receiver = (rank + (1 if onward else -1)) % ranks
    hop = costs.hop[action.stage if onward else action.stage - 1]
    state.ways.setdefault((rank, onward), collections.deque()).append(_Message(action, receiver, hop))


def bound(costs: Costs, microbatches: int) -> float:
    """No schedule with one stage a rank and whole backward passes is faster.

    A stage gets its first micro-batch through all before it, works on all of them, and the last one's gradient goes
    back through all before it.
    """
    work = [sum(parts) for parts in zip(costs.forward, costs.backward_input, costs.backward_weight, strict=True)]
    return max(microbatches * own + sum(work[:stage]) + 2 * sum(costs.hop[:stage]) for stage, own in enumerate(work))


def _who_waits(plan: Plan, slots: list[list[Slot]], ended: AbstractSet[Action], last: int) -> str:
    lines = []
    for rank, (done, actions) in enumerate(zip(slots, plan, strict=True)):
        if len(done) < len(actions):
            action = actions[len(done)]
            missing = next(need for need in needs(action, last) if need not in ended)
            lines.append(f"rank {rank} cannot run {action} before {missing}")
    return "; ".join(lines)
