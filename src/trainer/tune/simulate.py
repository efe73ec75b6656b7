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
    """A step or several, repeated: segments one after another, and the jobs that are carried beside them."""

    segments: Sequence[Segment]
    jobs: Sequence[Work]
    cores: float
    """of this rank"""
    urgent: bool = False
    """whether of the jobs that are ready the lowest number goes first; else they go as they became ready"""
    window: int = 1
    """the jobs that are under way at once, and share the wire"""
    steps: int = 1
    """the steps that the segments are of"""
    slowdown: float = 1.0
    """times as long as its share of the cores explains computing takes beside jobs"""


class Outcome(NamedTuple):
    """A step in the steady state, the mean where a program has several, in seconds."""

    step_s: float
    comm_s: float
    """in which any job was under way"""
    exposed_s: float
    """the part of that in which nothing computed"""


NO_TIME = Outcome(0.0, 0.0, 0.0)


@dataclass
class _Moving:
    """A segment or a job under way."""

    work: Work
    left: float = 1.0
    """the share of it that is left"""


@dataclass
class _Job(_Moving):
    number: int = 0


@dataclass
class _State:
    landed: list[bool]
    passed: Outcome = NO_TIME
    """what it took since its step began"""
    ready: list[int] = field(default_factory=list)
    flying: list[_Job] = field(default_factory=list)
    """in the order in which they started, in which they land too"""


def simulate(program: Program, times: int = 4) -> Outcome:
    """The last of so many `times`; the first ones fill what is carried over from step to step.

    1. Jobs whose turn it is start. 2. The training thread begins its next segment once that need not wait. 3. Time
    passes to the next end of a segment or a job. What computes on more cores than there are is stretched, and jobs
    under way share the wire evenly. Raises ValueError where everything waits.
    """
    state = _State([True] * len(program.jobs))
    for _ in range(times):
        state.passed = NO_TIME
        for segment in program.segments:
            while not all(state.landed[job] for job in segment.waits):
                _advance(program, state, None)
            computing = _Moving(segment.work)
            while computing.left > NOTHING:
                _advance(program, state, computing)
            for job in segment.readies:
                state.landed[job] = False
                state.ready.append(job)
    return Outcome(*(seconds / program.steps for seconds in state.passed))


def _advance(program: Program, state: _State, computing: _Moving | None) -> None:
    """Let time pass to the next end of anything."""
    while state.ready and len(state.flying) < program.window:
        number = min(state.ready) if program.urgent else state.ready[0]
        state.ready.remove(number)
        state.flying.append(_Job(program.jobs[number], number=number))
    if computing is None and not state.flying:
        raise ValueError(f"jobs that are waited for never become ready: {state.landed}")
    spans = list(_spans(program, state.flying, computing))
    passed = min(seconds for _, seconds in spans)
    for moving, seconds in spans:
        moving.left = moving.left * (1 - passed / seconds) if seconds > NOTHING else 0.0
    step_s, comm_s, exposed_s = state.passed
    comm_s += passed if state.flying else 0.0
    exposed_s += passed if state.flying and computing is None else 0.0
    state.passed = Outcome(step_s + passed, comm_s, exposed_s)
    done = list(itertools.takewhile(lambda job: job.left <= NOTHING, state.flying))
    for job in done:
        state.landed[job.number] = True
    del state.flying[: len(done)]


def _spans(program: Program, flying: Sequence[_Moving], computing: _Moving | None) -> Iterator[tuple[_Moving, float]]:
    """What is under way, and the seconds until its end if nothing changes."""
    # What has arrived waits, at no cost, for one that started earlier to land.
    travelling = [job for job in flying if job.left > NOTHING]
    under_way: list[tuple[_Moving, float]] = [(job, len(travelling)) for job in travelling]
    if computing is not None:
        under_way.append((computing, program.slowdown if travelling else 1))
    busy = sum(moving.work.cpu_s / moving.work.wall_s for moving, _ in under_way if moving.work.wall_s > 0)
    shortage = max(1.0, busy / program.cores)
    for moving, sharing in under_way:
        wall_s, on_cores = moving.work.wall_s, min(moving.work)
        yield moving, moving.left * ((wall_s - on_cores + on_cores * shortage) * sharing)
