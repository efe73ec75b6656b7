"""What computing loses beside transfers, and what nothing explains, found from one step that was measured."""

from __future__ import annotations

import dataclasses

import pytest

from tests.tune.made_up import profile
from trainer.tune.calibrate import MOST, calibrated
from trainer.tune.profile import Point
from trainer.tune.program import Choice, program
from trainer.tune.simulate import simulate

PRESENT = Choice("allreduce", "strict", 4.0)


def computing_s(slowdown: float) -> float:
    found = simulate(program(dataclasses.replace(profile(), slowdown=slowdown), PRESENT))
    return found.step_s - found.exposed_s


@pytest.mark.parametrize("slowdown", [1.0, 1.1, 1.37])
def test_it_is_the_one_that_explains_the_present_step(slowdown):
    assert calibrated(profile(), PRESENT, computing_s(slowdown)).slowdown == pytest.approx(slowdown, abs=1e-3)


def test_noise_has_bounds():
    assert calibrated(profile(), PRESENT, 0.9 * computing_s(1.0)).slowdown == 1.0
    assert calibrated(profile(), PRESENT, 10.0).slowdown == pytest.approx(MOST, abs=1e-3)


def test_what_the_slowdown_does_not_explain_is_the_rest():
    found = calibrated(dataclasses.replace(profile(), present_s=0.3), PRESENT, computing_s(1.1))
    assert found.unexplained * simulate(program(found, PRESENT)).step_s == pytest.approx(0.3)
    assert calibrated(found, PRESENT, computing_s(1.1)) == found


def test_only_computing_beside_transfers_takes_longer():
    alone = simulate(program(dataclasses.replace(profile(), slowdown=1.5), PRESENT._replace(bucket_cap_mb=100.0)))
    assert alone == simulate(program(profile(), PRESENT._replace(bucket_cap_mb=100.0)))
    beside = profile(allreduce=[Point(1.0, 0.015, 0.0)])
    fast, slow = (
        simulate(program(dataclasses.replace(beside, slowdown=slowdown), PRESENT)).step_s for slowdown in (1.0, 1.5)
    )
    # Three of four layers have a bucket of 15 ms beside their 20 ms: 10 ms of computing are done in these.
    assert slow - fast == pytest.approx(3 * 0.005)
