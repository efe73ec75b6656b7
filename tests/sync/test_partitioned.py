"""Partitions are updated when they arrive, and the result is that of strict training."""

from __future__ import annotations

import pytest
import torch

from tests.sync import scenario
from tests.sync.scenario import Case, adamw, sgd
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.sync.partitioned import Partitioned
from trainer.sync.strict import Strict

CASES = {
    "sgd": Case(sgd),
    "adamw": Case(adamw, dtype=torch.float32),
    "accumulation": Case(sgd, microbatches=4),
    "topk": Case(sgd, comm=TopK(ratio=0.1, min_numel=8), dtype=torch.float32),
}
RULES = [pytest.param(Partitioned(), id="bucket"), pytest.param(Partitioned(partition="layer"), id="layer")]


def _both(mesh: Mesh, rule: Partitioned, cases: list[Case]) -> list[tuple[dict, dict]]:
    return [(scenario.train(mesh, Strict(), case), scenario.train(mesh, rule, case)) for case in cases]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("rule", RULES)
def test_weights_buffers_and_optimizer_state_are_bitwise_those_of_strict(workers, rule, size):
    ranks = workers(size, _both, rule, list(CASES.values()))
    for name, (strict, partitioned) in zip(CASES, ranks[0], strict=True):
        for key, value in strict.items():
            assert torch.equal(partitioned[key], value), f"{name}: {key}"
    for other in ranks[1:]:
        for (_, mine), (_, theirs) in zip(other, ranks[0], strict=True):
            assert all(torch.equal(mine[key], theirs[key]) for key in mine if key not in scenario.OWN)


def _updates(mesh: Mesh, rule: Partitioned) -> list[tuple[int, int]]:
    """How many buckets and how many updates each step has."""
    case = Case(sgd, steps=3)
    training = scenario.begin(mesh, rule, case)
    scenario.run(training, mesh, case, range(3))
    training.close()
    steps: list = []
    while len(steps) < 3:
        steps += training.replica.meter.read()
    return [(len(step.buckets), sum(span.lane == "optimizer" for span in step.spans)) for step in steps]


def test_each_bucket_is_an_update_of_its_own(workers):
    for steps in workers(2, _updates, Partitioned()):
        assert all(buckets == updates for buckets, updates in steps)
        assert steps[-1][1] > 1


def _previous_norm(mesh: Mesh) -> dict:
    """With a norm that no gradient exceeds, and with one that halves them all."""
    loose = Case(sgd, max_norm=1e9, previous_norm=True)
    clipped = Case(sgd, max_norm=0.05, previous_norm=True)
    return {
        "loose": (scenario.train(mesh, Strict(), Case(sgd)), scenario.train(mesh, Partitioned(), loose)),
        "clipped": (scenario.train(mesh, Strict(), clipped), scenario.train(mesh, Partitioned(), clipped)),
        "first": (
            scenario.train(mesh, Strict(), clipped._replace(steps=1)),
            scenario.train(mesh, Partitioned(), clipped._replace(steps=1)),
        ),
    }


def test_the_norm_of_the_step_before_clips_nothing_it_should_not_and_nearly_what_it_should(workers):
    results = workers(2, _previous_norm)
    strict, partitioned = results[0]["loose"]
    assert all(torch.equal(partitioned[key], value) for key, value in strict.items())
    strict, partitioned = results[0]["first"]
    assert all(torch.equal(partitioned[key], value) for key, value in strict.items())
    strict, partitioned = results[0]["clipped"]
    weight = "model/first.weight"
    assert not torch.equal(partitioned[weight], strict[weight])
    # Gradients' norms change by some percent from one step to the next here, and so does what is clipped.
    moved = (strict[weight] - partitioned[weight]).norm() / strict[weight].norm()
    assert moved < 0.02
    other = results[1]["clipped"][1]
    assert all(torch.equal(other[key], value) for key, value in partitioned.items() if key not in scenario.OWN)
