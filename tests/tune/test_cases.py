"""The profiles that come with the trainer say what docs/tune.md says of them."""

from __future__ import annotations

import pytest

from trainer.tune import what_if
from trainer.tune.cases import CASES, eight_by_eight
from trainer.tune.program import Choice, program
from trainer.tune.simulate import simulate


@pytest.fixture(scope="module")
def steps():
    profile = eight_by_eight()
    return lambda *settings: simulate(program(profile, Choice(*settings)))


def test_the_names_that_may_be_given_are_those_that_there_are():
    assert set(CASES) == set(what_if.CASES)


def test_buckets_of_25_mb_leave_37_percent_exposed(steps):
    told = steps("allreduce", "strict", 25.0)
    assert told.exposed_s / told.step_s == pytest.approx(0.37, abs=1e-3)


def test_what_the_article_claims_of_larger_buckets_is_not_explained(steps):
    told, claimed = steps("allreduce", "strict", 25.0), steps("allreduce", "strict", 60.0)
    assert told.step_s / claimed.step_s == pytest.approx(1.03, abs=0.01)


@pytest.mark.parametrize(("hook", "gain"), [("fp16", 1.45), ("topk", 1.45), ("onebit", 1.53)])
def test_what_sends_less_explains_it(steps, hook, gain):
    told = steps("allreduce", "strict", 25.0)
    assert told.step_s / steps(hook, "strict", 25.0).step_s == pytest.approx(gain, abs=0.01)


def test_parts_that_all_ranks_of_a_host_swap_with_all_others_do_not(steps):
    assert steps("int8", "strict", 25.0).step_s > 0.95 * steps("allreduce", "strict", 25.0).step_s
