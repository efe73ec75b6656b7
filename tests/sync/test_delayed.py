"""Gradients are applied late: by how much, what that means, and that none is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.sync import scenario
from tests.sync.scenario import Case, adamw, sgd
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError
from trainer.sync.delayed import Delayed
from trainer.sync.strict import Strict


class _Quadratic(nn.Module):
    """A loss of curvature / 2 times x squared."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, curvature: Tensor) -> Tensor:
        return curvature.mean() / 2 * self.x.square().sum()


def _trajectory(mesh: Mesh, steps: int, warmup: int, rate: float, length: int) -> list[float]:
    case = Case(lambda net: torch.optim.SGD(net.parameters(), lr=rate), model=_Quadratic, steps=length)
    training = scenario.begin(mesh, Delayed(steps=steps, warmup_steps=warmup), case)
    points = []
    for _ in range(length):
        # Ranks see curvatures whose mean is one.
        curvature = torch.tensor([1.0 + (0.5 if mesh.rank else -0.5) * (mesh.world > 1)], dtype=torch.float64)
        training.synchroniser.module(curvature).backward()
        training.synchroniser.step()
        points.append(training.net.x[0].item())
    training.synchroniser.finish()
    points.append(training.net.x[0].item())
    training.close()
    return points


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (1, 4), (2, 0), (3, 2)])
def test_a_quadratic_follows_the_closed_form(workers, size, steps, warmup):
    length, rate = 12, 0.3
    gradients, expected = [], []
    x, applied = 1.0, 0
    for step in range(length):
        gradients.append(x)  # the gradient at the weights of now
        due = step + 1 if step < warmup else step + 1 - steps
        while applied < due:
            x -= rate * gradients[applied]
            applied += 1
        expected.append(x)
    while applied < length:
        x -= rate * gradients[applied]
        applied += 1
    expected.append(x)
    for points in workers(size, _trajectory, steps, warmup, rate, length):
        assert points == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(("steps", "bound"), [(1, 1.0), (2, 0.618)])
def test_a_quadratic_is_stable_below_the_bound_and_not_above(workers, steps, bound):
    def farthest(rate: float) -> float:
        (points,) = workers(1, _trajectory, steps, 0, rate, 400)
        return max(abs(x) for x in points[-50:])

    assert farthest(0.95 * bound) < 1e-2
    assert farthest(1.05 * bound) > 10


def _trained(mesh: Mesh, rule: Any, case: Case) -> dict:
    return scenario.train(mesh, rule, case)


def test_while_it_warms_up_it_is_strict(workers):
    case = Case(sgd, steps=6)
    strict = workers(2, _trained, Strict(), case)[0]
    delayed = workers(2, _trained, Delayed(steps=2, warmup_steps=6), case)[0]
    assert all(torch.equal(delayed[key], value) for key, value in strict.items())


def _resumed(mesh: Mesh, case: Case, at: int) -> tuple[dict, dict]:
    """The end of a training, and of one that goes on from what the first carried after `at` steps."""
    rule = Delayed(steps=2, warmup_steps=3)
    first, second = scenario.begin(mesh, rule, case), scenario.begin(mesh, rule, case)
    # Something that must be forgotten, as the trainer's own first step for nothing.
    scenario.run(second, mesh, case, range(5))
    scenario.run(first, mesh, case, range(at))
    with first.synchroniser.whole():
        carried = {name: value.clone() for name, value in first.synchroniser.carried().items()}
    with second.synchroniser.whole():
        second.net.load_state_dict(first.net.state_dict())
        second.replica.optimizer.load_state_dict(copy.deepcopy(first.replica.optimizer.state_dict()))
        second.synchroniser.resume([carried], 0)
    for training in (first, second):
        scenario.run(training, mesh, case, range(at, case.steps))
        training.synchroniser.finish()
    ends = scenario.state(first), scenario.state(second)
    first.close(), second.close()
    return ends


@pytest.mark.parametrize("at", [2, 4, 9])
def test_pending_gradients_are_carried_to_the_bit(workers, at):
    for whole, rest in workers(2, _resumed, Case(adamw, steps=12), at):
        assert all(torch.equal(rest[key], value) for key, value in whole.items())


def test_a_lossy_hook_works_on_what_is_delayed_and_ranks_stay_alike(workers):
    case = Case(sgd, comm=TopK(ratio=0.1, min_numel=8), dtype=torch.float32)
    one, other = workers(2, _trained, Delayed(steps=1, warmup_steps=5), case)
    assert all(torch.equal(other[key], value) for key, value in one.items() if key not in scenario.OWN)
    assert all(value.isfinite().all() for value in one.values())


def test_a_run_that_ends_before_the_delay_begins_is_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("sync=delayed", "steps=30")
    assert str(caught.value) == (
        "sync.steps: the delay begins after 40 steps of warm-up and the run has 30, so next to nothing would be"
        " delayed; lower sync.warmup_steps, or use sync=strict"
    )


def test_a_run_without_a_length_is_refused_as_under_any_rule(make_run):
    with pytest.raises(ConfigError, match=r"^steps: neither steps nor epochs is set"):
        make_run("sync=delayed", "steps=null", "epochs=null")


def test_no_delay_is_no_delay(make_run):
    with pytest.raises(ConfigError, match=r"^sync.steps: 0 is not allowed"):
        make_run("sync=delayed", "sync.steps=0")
