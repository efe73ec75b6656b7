"""A step of one rank as it would go: its computing, and the jobs that its gradients are carried by, on shared cores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# Of a segment or a job, what is left by rounding alone.
NOTHING = 1e-12


class Work(NamedTuple):
    """What takes `wall_s` seconds where nothing else runs, and `cpu_s` of the cores' time."""

    wall_s: float
    cpu_s: float = 0.0


class Segment(NamedTuple):
    """A piece of the training thread's program."""

    work: Work
    waits: tuple[int, ...] = ()
    """the jobs that must have landed before it begins"""
    readies: tuple[int, ...] = ()
    """the jobs whose gradients are complete when it ends"""


class Program(NamedTuple):
    """A step, which is repeated: segments one after another, and the jobs that are carried beside them."""

    segments: Sequence[Segment]
    jobs: Sequence[Work]
    cores: float
    """of this rank"""
    urgent: bool = False
    """whether of the jobs that are ready the lowest number goes first; else they go as they became ready"""
    window: int = 1
    """the jobs that are under way at once, and share the wire"""


class Outcome(NamedTuple):
    """A step in the steady state, in seconds."""

    step_s: float
    comm_s: float
    """in which any job was under way"""
    exposed_s: float
    """the part of that in which nothing computed"""


@dataclass
class _Moving:
    """A segment or a job under way."""

    work: Work
    number: int
    left: float = 1.0
    """the share of it that is left"""


@dataclass
class _State:
    landed: list[bool]
    now: float = 0.0
    comm_s: float = 0.0
    exposed_s: float = 0.0
    ready: list[int] = field(default_factory=list)
    flying: list[_Moving] = field(default_factory=list)
    """in the order in which they started, in which they land too"""


def simulate(program: Program, steps: int = 4) -> Outcome:
    """The last of `steps` repetitions; the first ones fill what is carried over from step to step.

    1. Jobs whose turn it is start. 2. The training thread begins its next segment once that need not wait. 3. Time
    passes to the next end of a segment or a job. What computes on more cores than there are is stretched, and jobs
    under way share the wire evenly. Raises ValueError where everything waits.
    """
    state = _State([True] * len(program.jobs))
    before = state
    for step in range(steps):
        if step == steps - 1:
            before = _State([], state.now, state.comm_s, state.exposed_s)
        for number, segment in enumerate(program.segments):
            while not all(state.landed[job] for job in segment.waits):
                _advance(program, state, None)
            computing = _Moving(segment.work, number)
            while computing.left > NOTHING:
                _advance(program, state, computing)
            for job in segment.readies:
                state.landed[job] = False
                state.ready.append(job)
    return Outcome(state.now - before.now, state.comm_s - before.comm_s, state.exposed_s - before.exposed_s)


def _advance(program: Program, state: _State, computing: _Moving | None) -> None:
    """Let time pass to the next end of anything."""
    while state.ready and len(state.flying) < program.window:
        number = min(state.ready) if program.urgent else state.ready[0]
        state.ready.remove(number)
        state.flying.append(_Moving(program.jobs[number], number))
    if computing is None and not state.flying:
        raise ValueError(f"jobs that are waited for never become ready: {state.landed}")
    spans = list(_spans(program.cores, state.flying, computing))
    passed = min(seconds for _, seconds in spans)
    for moving, seconds in spans:
        moving.left = moving.left * (1 - passed / seconds) if seconds > NOTHING else 0.0
    state.now += passed
    if state.flying:
        state.comm_s += passed
        state.exposed_s += passed if computing is None else 0.0
    done = list(itertools.takewhile(lambda job: job.left <= NOTHING, state.flying))
    for job in done:
        state.landed[job.number] = True
    del state.flying[: len(done)]


def _spans(cores: float, flying: Sequence[_Moving], computing: _Moving | None) -> Iterator[tuple[_Moving, float]]:
    """What is under way, and the seconds until its end if nothing changes."""
    under_way = [(job, len([other for other in flying if other.left > NOTHING])) for job in flying]
    if computing is not None:
        under_way.append((computing, 1))
    busy = sum(moving.work.cpu_s / moving.work.wall_s for moving, _ in under_way if moving.work.wall_s > 0)
    shortage = max(1.0, busy / cores)
    for moving, sharing in under_way:
        if moving.left <= NOTHING:
            continue  # has arrived, and lands after one that started earlier
        wall_s, on_cores = moving.work.wall_s, min(moving.work)
        yield moving, moving.left * ((wall_s - on_cores + on_cores * shortage) * sharing)
