"""The constant schedule, and the warm-up that every schedule has."""

from __future__ import annotations

import pytest

from trainer.schedule.constant import Constant
from trainer.spec import ConfigError


def test_the_rate_rises_in_equal_steps_and_stays():
    factors = [Constant(warmup_steps=4).factor(step, 10) for step in range(10)]
    assert factors == pytest.approx([0.2, 0.4, 0.6, 0.8] + [1.0] * 6)


def test_without_warm_up_the_first_step_has_the_full_rate():
    assert [Constant().factor(step, 3) for step in range(3)] == [1.0, 1.0, 1.0]


def test_a_warm_up_as_long_as_the_run_is_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("schedule=constant", "schedule.warmup_steps=20", "steps=20")
    assert str(caught.value) == (
        "schedule.warmup_steps: 20 steps of warm-up leave nothing of steps=20; use fewer, for example a tenth of the"
        " steps"
    )


def test_a_warm_up_one_step_shorter_is_not(make_run):
    schedule = make_run("schedule=constant", "schedule.warmup_steps=19", "steps=20").schedule
    assert schedule.factor(19, 20) == 1.0


def test_a_warm_up_longer_than_the_epochs_is_refused(make_run):
    with pytest.raises(ConfigError, match=r"^schedule\.warmup_steps: 22 steps of warm-up leave nothing of "):
        make_run("schedule=constant", "schedule.warmup_steps=22", "epochs=1")
