"""A run's pipeline: its schedule, what its ranks wait for each other, and what other schedules would make of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from trainer.doctor.part import mean_ms, parts
from trainer.doctor.situation import ranks
from trainer.doctor.typical import number, typical_ms
from trainer.overlap import stages
from trainer.overlap.evidence import Event, Evidence
from trainer.overlap.meter import AWAITS, SENDS
from trainer.pipeline.schedules import SCHEDULES
from trainer.pipeline.simulate import Costs, simulate

# A plan of more actions than this takes too long to be worked out while somebody waits.
MOST_ACTIONS = 4096


class Pipelined(NamedTuple):
    """A pipeline at work; times in ms."""

    size: int
    """ranks"""
    stages: int
    """on each rank"""
    microbatches: int
    """in a step"""
    schedule: str
    """where the run chose it itself, by what ranks did; 1f1b if that is not known"""
    step_ms: float
    """of the slowest rank"""
    bubble_ms: float
    """what ranks wait for neighbouring stages in a step, in the mean"""
    parts: list[list[int]]
    """the ranks of each of its ranks, as many as there are replicas; empty where no step was recorded"""

    @property
    def bubble(self) -> float:
        """The measured share of a step."""
        return self.bubble_ms / self.step_ms

    def least_bubble(self, microbatches: int) -> float:
        """The share of a step that ranks idle while the pipeline fills and drains, if all else is ideal.

        (p - 1) / (m + p - 1) for p ranks and m micro-batches; several stages a rank, or the split of a backward pass,
        make pieces that are so many times smaller.
        """
        pieces = 3 if self.schedule == "zero_bubble" else self.stages
        return (self.size - 1) / (pieces * microbatches + self.size - 1)

    @property
    def beyond_ms(self) -> float:
        """What ranks wait beyond that in a step."""
        return self.bubble_ms - self.least_bubble(self.microbatches) * self.step_ms


def pipelined(evidence: Evidence) -> Pipelined | None:
    """None without a pipeline, or where its waits were not measured."""
    size, step_ms = number(evidence, "parallel.pipeline.size") or 1, typical_ms(evidence, "step", worst=True)
    everyone = range(ranks(evidence))
    waits = [typical_ms(evidence, lane) for lane in AWAITS]
    if not 2 <= size <= len(everyone) or not step_ms or None in waits:
        return None
    recorded = evidence.timeline()
    events = [event for events in recorded.timeline or [] for event in events] if recorded else []
    pieces = [piece for event in events if (piece := stages.piece(event.name))]
    named = number(evidence, "parallel.pipeline.microbatches") or 0
    microbatches = 1 + max((piece.microbatch for piece in pieces), default=int(named) - 1)
    schedule = str(evidence.option("parallel.pipeline.schedule"))
    a_rank = max(1, len({piece.stage for piece in pieces}) // int(size))
    if microbatches < 1:
        return None
    holding = parts(evidence)
    if schedule not in SCHEDULES:
        first = recorded.timeline[0] if recorded and recorded.timeline else []
        schedule = _followed(first, int(size), a_rank, microbatches)
    return Pipelined(
        int(size),
        a_rank,
        microbatches,
        schedule,
        step_ms,
        mean_ms(evidence, everyone, *AWAITS),
        holding if len(holding) == size else [],
    )


def costs(evidence: Evidence) -> Costs | None:
    """The ms of each stage's work on a micro-batch, and of a message between two stages, in a typical recorded step."""
    recorded = evidence.timeline()
    timeline = (recorded.timeline if recorded else None) or []
    forward: dict[int, list[float]] = {}
    backward: dict[int, list[float]] = {}
    weights: dict[int, list[float]] = {}
    for event in (event for events in timeline for event in events):
        piece = stages.piece(event.name)
        if piece is not None and event.lane in ("forward", "backward"):
            kind = forward if event.lane == "forward" else weights if piece.weights else backward
            kind.setdefault(piece.stage, []).append(event.end_ms - event.start_ms)
    hops = [_hops(events) for events in timeline]
    count = len(forward)
    if not count or set(forward) != set(range(count)) or set(backward) != set(forward):
        return None
    hop = [[taken for rank in hops for pair, taken in rank if pair == stage] for stage in range(count - 1)]
    if not all(hop):
        return None
    first = [statistics.fmean(backward[stage]) for stage in range(count)]
    # Of a backward pass that is not split, both parts are taken to be equal, as those of a linear layer are.
    second = [statistics.fmean(weights[stage]) if stage in weights else first[stage] / 2 for stage in range(count)]
    first = [first[stage] if stage in weights else first[stage] / 2 for stage in range(count)]
    return Costs(
        [statistics.fmean(forward[stage]) for stage in range(count)], first, second, [statistics.median(h) for h in hop]
    )


def forecast_ms(at: Pipelined, schedule: str, size: int, microbatches: int, work: Costs) -> float | None:
    """The passes of a step with another schedule; None where that has no such plan or is too long to work out."""
    if schedule == "interleaved" and microbatches % size:
        return None
    if 2 * size * at.stages * microbatches > MOST_ACTIONS or microbatches < 1:
        return None
    return simulate(SCHEDULES[schedule](size, at.stages, microbatches), work).duration


def merged(work: Costs, pieces: int) -> Costs:
    """The costs of stages that are `pieces` of these in a row each."""

    def add(values: Sequence[float]) -> list[float]:
        return [sum(values[first : first + pieces]) for first in range(0, len(values), pieces)]

    hop = work.hop[pieces - 1 :: pieces]
    return Costs(add(work.forward), add(work.backward_input), add(work.backward_weight), hop)


def _followed(events: Sequence[Event], size: int, a_rank: int, microbatches: int) -> str:
    """The schedule by which a pipeline's first rank did what it did."""
    passes = sorted((event for event in events if event.lane in ("forward", "backward")), key=lambda one: one.start_ms)
    done = []
    for event in passes:
        if (piece := stages.piece(event.name)) is not None:
            kind = "F" if event.lane == "forward" else "W" if piece.weights else "B"
            done.append((kind, piece.stage, piece.microbatch))
    for name, schedule in SCHEDULES.items():
        if 2 * size * a_rank * microbatches > MOST_ACTIONS or (name == "interleaved" and microbatches % size):
            continue
        plan = schedule(size, a_rank, microbatches)[0]
        if done == [("B" if kind == "I" else kind, stage, microbatch) for kind, stage, microbatch in plan]:
            return name
    return "1f1b"


def _hops(events: Sequence[Event]) -> list[tuple[int, float]]:
    """(the earlier of the two stages, ms on the wire) of the messages of a rank, which follow each other in a lane."""
    found = []
    for lane in SENDS:
        free = 0.0
        for event in sorted((event for event in events if event.lane == lane), key=lambda event: event.start_ms):
            about = stages.message(event.name)
            if about is not None and event.size > 0:
                pair = about.stage - 1 if lane == "send_onward" else about.stage
                found.append((pair, max(0.0, event.end_ms - max(event.start_ms, free))))
            free = event.end_ms
    return found
