"""Settings become a program of the step."""

from __future__ import annotations

import dataclasses

import pytest

from tests.tune.made_up import MIB, line, profile
from trainer.tune.profile import Point
from trainer.tune.program import Choice, gradient_bytes, program, sent_bytes
from trainer.tune.simulate import Work, simulate

# 2 ms of rest, passes of 40 and 80 ms, and an update of 4 ms.
COMPUTED = 0.126


def test_bytes_are_those_of_all_parameters():
    assert gradient_bytes(profile()) == 16 * MIB


def test_bytes_that_are_sent_are_the_hooks_share_of_them_once_a_period():
    sparse = profile(topk=[Point(MIB, 0.001, 0.0, sent=0.02 * MIB)])
    assert sent_bytes(sparse, Choice("topk", "strict", 4.0)) == pytest.approx(0.02 * 16 * MIB)
    assert sent_bytes(sparse, Choice("topk", "local_sgd", period=8)) == pytest.approx(0.02 * 2 * MIB)


@pytest.mark.parametrize(("cap", "buckets"), [(4.0, 4), (5.0, 2), (100.0, 1), (None, 2)])
def test_buckets_follow_the_cap(cap, buckets):
    assert len(program(profile(), Choice("allreduce", "strict", cap)).jobs) == buckets


def test_one_bucket_hides_nothing_and_small_ones_all_but_the_last():
    one = simulate(program(profile(), Choice("allreduce", "strict", 100.0)))
    assert one.step_s == pytest.approx(COMPUTED + 0.161)
    four = simulate(program(profile(), Choice("allreduce", "strict", 4.0)))
    # Each travels for 41 ms; the first is ready when a quarter of the backward pass is over.
    assert four.step_s == pytest.approx(0.042 + 0.020 + 4 * 0.041 + 0.004)


def test_a_lazy_rule_hides_beside_the_forward_pass_too():
    fast = profile(allreduce=line(0.001, 200))
    strict = simulate(program(fast, Choice("allreduce", "strict", 4.0)))
    lazy = simulate(program(fast, Choice("allreduce", "next_forward")))
    assert lazy.step_s < strict.step_s
    assert lazy.step_s >= COMPUTED - 0.004


def test_a_hook_that_may_not_cut_parameters_carries_whole_ones():
    both = profile(topk=line(0.001, 1000))
    assert len(program(both, Choice("allreduce", "next_forward", chunk_mb=1.0)).jobs) == 16
    assert len(program(both, Choice("topk", "next_forward", chunk_mb=1.0)).jobs) == 4


def test_an_update_where_a_bucket_lands_is_waited_for_in_its_part_only():
    strict = simulate(program(profile(), Choice("allreduce", "strict", 4.0)))
    early = simulate(program(profile(), Choice("allreduce", "partitioned", 4.0)))
    # Three of four updates of 1 ms are made while the next bucket waits for the wire, which they hold up.
    assert early.step_s == pytest.approx(strict.step_s)
    fast = profile(allreduce=line(0.001, 1000))
    strict, early = (simulate(program(fast, Choice("allreduce", rule, 4.0))) for rule in ("strict", "partitioned"))
    assert early.step_s == pytest.approx(strict.step_s - 0.003)


def test_a_delayed_update_waits_for_what_has_had_a_step_to_arrive():
    # 16 MiB in 161 ms, beside a step of 126 ms and 4 ms of copying: the wire is what is waited for.
    slow = simulate(program(profile(), Choice("allreduce", "delayed", 100.0)))
    assert slow.step_s == pytest.approx(0.161, rel=0.01)
    fast = profile(allreduce=line(0.001, 200))
    assert simulate(program(fast, Choice("allreduce", "delayed", 100.0))).step_s == pytest.approx(COMPUTED + 0.004)


def test_a_delayed_bucket_is_copied_before_it_travels():
    slow = dataclasses.replace(profile(allreduce=line(0.001, 200)), copying=160 * MIB)
    step = program(slow, Choice("allreduce", "delayed", 4.0))
    assert simulate(step).step_s == pytest.approx(COMPUTED + 16 / 160)
    assert [segment.readies for segment in step.segments if segment.work == Work(0.025, 0.025)] == [
        (0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,),
    ]  # fmt: skip


def test_parameters_that_travel_once_a_period_cost_a_part_of_their_time():
    outcome = simulate(program(profile(), Choice("allreduce", "local_sgd", period=4)))
    # Two chunks of 8 MiB, after one another, every fourth step.
    assert outcome.step_s == pytest.approx(COMPUTED + 2 * 0.081 / 4)
    assert outcome.exposed_s == pytest.approx(outcome.comm_s)
