"""Buffers are the first replica's at the beginning of every step, and do not travel between gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.sync import scenario
from tests.sync.scenario import Case, sgd
from trainer.mesh import Mesh
from trainer.sync.delayed import Delayed
from trainer.sync.next_forward import NextForward
from trainer.sync.strict import Strict

STEPS = 6
RULES = [Delayed(warmup_steps=0), Delayed(steps=2, warmup_steps=2), NextForward(chunk_mb=0.01)]
NAMES = ["delayed", "two late", "next_forward"]


def _seen(mesh: Mesh, rule: Any, microbatches: int) -> list[torch.Tensor]:
    """The running means that each forward pass began with."""
    case = Case(sgd, steps=STEPS, microbatches=microbatches)
    training, seen = scenario.begin(mesh, rule, case), []
    training.net.norm.register_forward_pre_hook(lambda norm, _: seen.append(norm.running_mean.clone()))
    scenario.run(training, mesh, case, range(STEPS))
    training.synchroniser.finish()
    training.close()
    return seen


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("rule", [Strict(), *RULES], ids=["strict", *NAMES])
def test_every_step_begins_with_the_first_replicas_buffers(workers, rule, microbatches):
    one, other = workers(2, _seen, rule, microbatches)
    assert len(one) == STEPS * microbatches
    for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        # Between the micro-batches of a step each replica has gathered its own.
        assert torch.equal(mine, theirs) == (number % microbatches == 0)


def _counted(mesh: Mesh, rule: Any) -> int:
    """Batch norm's count where every backward pass adds one, as recomputed activations do."""
    case = Case(sgd, steps=STEPS)
    training = scenario.begin(mesh, rule, case)

    def again(_: torch.Tensor) -> None:
        training.net.norm.num_batches_tracked.add_(1)

    training.net.conv.weight.register_hook(again)
    scenario.run(training, mesh, case, range(STEPS))
    training.synchroniser.finish()
    training.close()
    return training.net.norm.num_batches_tracked.item()


@pytest.mark.parametrize("rule", [Strict(), *RULES], ids=["strict", *NAMES])
def test_the_first_replica_keeps_what_it_changes_in_the_backward_pass(workers, rule):
    assert workers(2, _counted, rule)[0] == 2 * STEPS


def _collectives(mesh: Mesh, rule: Any) -> tuple[int, int]:
    """Of some steps after the first two: the collectives on the gradients' group, and the buckets."""
    case = Case(sgd, steps=STEPS)
    training, buckets = scenario.begin(mesh, rule, case), 0
    # Buckets are cut anew after the first step.
    scenario.run(training, mesh, case, range(2))
    training.synchroniser.finish()
    before = mesh.groups["data"]._get_sequence_number_for_group()
    begin = training.replica.meter.begin

    def counted(lane: str, name: str = "") -> Any:
        nonlocal buckets
        buckets += lane == "comm"
        return begin(lane, name)

    training.replica.meter.begin = counted
    scenario.run(training, mesh, case, range(2, STEPS))
    training.synchroniser.finish()
    found = mesh.groups["data"]._get_sequence_number_for_group() - before, buckets
    training.close()
    return found


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_on_the_gradients_group_nothing_travels_but_gradients(workers, rule):
    for collectives, buckets in workers(2, _collectives, rule):
        assert collectives == buckets > STEPS
