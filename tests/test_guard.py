"""The guard steps down when a run stops converging, in order, and up again."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import nn

from tests.processes import SMALL, run
from trainer.guard import GOOD_LINES, SAMPLE, Guard


class _Lever:
    def __init__(self, name: str, degrees: int) -> None:
        self.name, self.left, self.most = name, degrees, degrees

    def ease(self) -> str | None:
        if not self.left:
            return None
        self.left -= 1
        return f"{self.name} {self.left}"

    def tighten(self) -> str | None:
        if self.left == self.most:
            return None
        self.left += 1
        return f"{self.name} {self.left}"


@pytest.fixture
def levers() -> tuple[_Lever, _Lever]:
    return _Lever("delay", 2), _Lever("dense", 1)


@pytest.fixture
def guard(levers) -> Guard:
    return Guard(levers, nn.Linear(2, 1), every=10)


def see(guard: Guard, *losses: float, contraction: float | None = None) -> float:
    for step, loss in enumerate(losses):
        level = guard.see(step, loss, math.nan, contraction)["guard/level"]
    return level


CALM = (2.0, 1.8, 1.7, 1.75, 1.6, 1.5, 1.52, 1.4)


def test_a_falling_noisy_loss_is_left_alone(guard: Guard):
    assert see(guard, *CALM) == 0


def test_a_loss_that_leaves_its_past_steps_down_and_one_outlier_does_not(guard: Guard, levers, caplog):
    assert see(guard, *CALM, 9.0, 1.4, 1.35) == 0
    assert see(guard, 6.0, 8.0) == 1
    assert levers[0].left == 1
    assert re.fullmatch(r"guard: delay 1 after step 1, since the loss rose to 8 from about 1.4\d*", caplog.messages[-1])


def test_levers_are_pulled_in_order_until_nothing_is_left(guard: Guard, levers):
    see(guard, *CALM)
    assert see(guard, *[100.0] * 6) == 3
    assert (levers[0].left, levers[1].left) == (0, 0)
    assert see(guard, *[100.0] * 4) == 3


def test_it_steps_up_when_calm_and_waits_longer_after_a_relapse(guard: Guard, levers):
    see(guard, *CALM)
    assert see(guard, 50.0, 50.0) == 1
    assert see(guard, *[1.4] * (GOOD_LINES - 1)) == 1
    assert see(guard, 1.4) == 0
    assert levers[0].left == 2
    assert see(guard, 50.0, 50.0) == 1
    assert see(guard, *[1.4] * (2 * GOOD_LINES - 1)) == 1
    assert see(guard, 1.4) == 0


def test_a_hook_that_loses_more_than_it_sends_steps_down(guard: Guard):
    assert see(guard, 1.0, 1.0, contraction=0.99) == 0
    assert see(guard, 1.0, 1.0, contraction=1.2) == 1


def test_updates_that_point_against_each_other_step_down(levers, caplog):
    net = nn.Linear(2, 1, bias=False)
    guard = Guard(levers, net, every=4)
    for done in range(1, 9):
        with torch.no_grad():
            net.weight += 1.0 if done % 2 else -1.0
        guard.step(done)
        if done % 4 == 0:
            seen = guard.see(done, 1.0, guard.cosine(), None)
            assert seen["guard/cosine"] == pytest.approx(-1)
    assert guard.level == 1
    assert "updates point against each other (cosine -1.00)" in caplog.messages[-1]


def test_a_large_model_is_judged_by_a_sample_of_all_its_parameters():
    net = nn.ParameterList([nn.Parameter(torch.zeros(SAMPLE, 2)), nn.Parameter(torch.zeros(3, SAMPLE).t())])
    guard = Guard([], net, every=4)
    # Of the last update three parts in five point back.
    for done, (first, second) in enumerate([(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)], 2):
        with torch.no_grad():
            net[0].fill_(first)
            net[1].fill_(second)
        guard.step(done)
    assert guard.cosine() == pytest.approx(-0.2, abs=1e-4)


class _Pending(nn.Linear):
    """An update lands when parameters are asked for, as under `next_forward`."""

    landed = 0

    def named_parameters(self, *args, **kwargs):
        self.weight.data.fill_(self.landed)
        return super().named_parameters(*args, **kwargs)


def test_updates_that_are_under_way_land_before_weights_are_looked_at():
    net = _Pending(2, 1, bias=False)
    guard = Guard([], net, every=4)
    for done, net.landed in enumerate([0, 1, 0], 2):
        guard.step(done)
    assert guard.cosine() == pytest.approx(-1)


def test_a_run_that_would_diverge_by_its_delay_is_brought_back(tmp_path):
    # Stable without delay, far beyond the bound with four steps of it.
    arguments = (*SMALL, "optimizer.lr=0.3", "schedule=constant", "steps=120", "log.every=3", "evaluate.every=null")
    rule = ("sync=delayed", "sync.steps=4", "sync.warmup_steps=20")
    code, output = run(tmp_path, *arguments, *rule, "folder=guarded")
    assert code == 0, output
    assert "guard: sync.steps 4 -> 3 after step" in output
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)  samples", output)]
    assert losses[-1] < max(losses)
