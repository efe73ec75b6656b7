"""The stages of a pipeline and their schedule, from what was measured."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from trainer.parallel.pipeline import PipelineAxis
from trainer.pipeline.actions import Plan, held
from trainer.pipeline.balance import Cost, balance, stage_bytes
from trainer.pipeline.schedules import SCHEDULES
from trainer.pipeline.simulate import Costs, bound, simulate

# A schedule that holds more must gain so much, since memory has other uses.
WORTH = 0.02
# Of two parts of a backward pass that are not measured apart; a linear layer's are equal.
INPUT_SHARE = 0.5


class Link(NamedTuple):
    """The time that a message between neighbours takes."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, nbytes: int) -> float:
        return self.latency_s + nbytes / self.bytes_per_s


class Choice(NamedTuple):
    """Stages and a schedule for them."""

    begins: list[int]
    """the units that begin the second and later stages"""
    schedule: str
    plan: Plan
    reason: str
    """what was measured and what follows from it, in one line"""
    rank_bytes: list[float]
    """the memory that each rank will need, where it was measured"""
    predicted: dict[str, float] = {}
    """the seconds of a step under each schedule that was simulated"""


def choose(
    axis: PipelineAxis,
    microbatches: int,
    costs: Sequence[Cost],
    links: Sequence[Link],
    memory_bytes: float,
    cut: Sequence[int] = (),
) -> Choice:
    """The schedule that a simulation with these costs finds fastest of those that fit into `memory_bytes` a rank.

    `cut`, where stages are given, leaves only schedules for as many. `links` are those from each rank to the next; from
    the last to the first it is taken to be the slowest of them. Schedules that hold few activations come first, and a
    later one must be faster by WORTH. Where none fits, that with the fewest activations.
    """
    candidates = [("1f1b", 1), ("zero_bubble", 1), ("eager_1f1b", 1), ("gpipe", 1)]
    several = axis.stages or 2
    if several > 1 and len(costs) >= several * axis.size and microbatches % axis.size == 0:
        candidates.append(("interleaved", several))
    if cut:
        candidates = [(name, stages) for name, stages in candidates if axis.size * stages == len(cut) + 1]
    predicted: dict[str, float] = {}
    best: tuple[float, Choice] | None = None
    too_large = []
    for name, stages in candidates:
        plan = SCHEDULES[name](axis.size, stages, microbatches)
        begins = list(cut) or balance(costs, held(plan), memory_bytes)
        if best is not None and max(rank_bytes(costs, begins, plan)) > memory_bytes:
            too_large.append(name)
            continue
        seconds = simulate(plan, costs_of(costs, begins, links)).duration
        predicted[name] = seconds
        if best is None or seconds < best[0] * (1 - WORTH):
            best = seconds, Choice(begins, name, plan, "", rank_bytes(costs, begins, plan))
    assert best is not None, "the launcher refuses a cut that fits no schedule"
    seconds, choice = best
    stage = costs_of(costs, choice.begins, links)
    slowest = max(f + i + w for f, i, w in zip(stage.forward, stage.backward_input, stage.backward_weight, strict=True))
    others = [f"{name} {other * 1000:.0f}" for name, other in predicted.items() if name != choice.schedule]
    least = bound(costs_of(costs, balance(costs, [0.0] * axis.size), links), microbatches)
    reason = (
        f"{choice.schedule}, {seconds * 1000:.0f} ms a step in a simulation"
        f" ({', '.join([*others, f'bound of whole backward passes {least * 1000:.0f}'])}); the slowest stage takes"
        f" {slowest * 1000:.1f} ms a micro-batch, the slowest hop {max(stage.hop) * 1000:.1f} ms"
    )
    if too_large:
        reason += f"; the activations of {', '.join(too_large)} do not fit"
    return choice._replace(reason=reason, predicted=predicted)


def costs_of(costs: Sequence[Cost], begins: Sequence[int], links: Sequence[Link]) -> Costs:
    """The costs of stages that begin at these units, on as many ranks as there are links and one."""
    groups = _grouped(costs, begins)
    ring = [*links, min(links, key=lambda link: link.bytes_per_s)]
    backward = [sum(cost.backward_s for cost in group) for group in groups]
    return Costs(
        [sum(cost.forward_s for cost in group) for group in groups],
        [INPUT_SHARE * seconds for seconds in backward],
        [(1 - INPUT_SHARE) * seconds for seconds in backward],
        [ring[stage % len(ring)].seconds(group[-1].output_bytes) for stage, group in enumerate(groups[:-1])],
    )


def _grouped(costs: Sequence[Cost], begins: Sequence[int]) -> list[Sequence[Cost]]:
    edges = [0, *begins, len(costs)]
    return [costs[first:stop] for first, stop in itertools.pairwise(edges)]


def rank_bytes(costs: Sequence[Cost], begins: Sequence[int], plan: Plan) -> list[float]:
    """The memory that each rank needs for parameters, their states and the activations it holds."""
    groups, shares = _grouped(costs, begins), held(plan)
    of_stages = [stage_bytes(group, share) for group, share in zip(groups, shares, strict=True)]
    return [sum(of_stages[rank :: len(plan)]) for rank in range(len(plan))]
