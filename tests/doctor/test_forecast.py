"""The tail that other buckets would have."""

from __future__ import annotations

import pytest

from tests.doctor.scene import MIB, Queue, over
from trainer.doctor.forecast import Ready, best_size, cut, limited_by_cap, measured_cost, stretched, tail_ms
from trainer.doctor.link import Link
from trainer.doctor.recorded import Step, recorded, typical

LINK = Link(0.5, 1000 / 117e6, separated=True)


def step(*buckets: tuple[float, float], **hook: float) -> Step:
    found = typical(recorded(over(Queue((200, 600), start_ms=0.5, mb_per_s=117), list(buckets), hook=hook)))
    assert found is not None
    return found


def test_buckets_travel_one_by_one_each_when_it_is_ready():
    buckets = [Ready(10, 0), Ready(10, 1), Ready(10, 50)]
    assert tail_ms(buckets, lambda size: size, backward_end_ms=50) == 10
    assert tail_ms(buckets[:2], lambda size: size, backward_end_ms=15) == 5
    assert tail_ms(buckets[:2], lambda size: size, backward_end_ms=30) == 0


def test_one_bucket_is_cut_as_if_gradients_came_evenly():
    assert cut(step((100, 600)), 50) == [Ready(50 * MIB, 400), Ready(50 * MIB, 600)]
    assert [ready.size / MIB for ready in cut(step((97.5, 600)), 40)] == [40, 40, pytest.approx(17.5)]
    assert cut(step((97.5, 600)), 200) == [Ready(97.5 * MIB, 600)]


def test_moments_that_are_known_are_kept():
    assert cut(step((20, 220), (80, 600)), 20)[0] == Ready(20 * MIB, 220)
    assert cut(step((20, 220), (80, 600)), 60)[0].ready_ms == pytest.approx(410)


def test_the_prediction_for_the_buckets_as_they_are_is_what_was_measured():
    measured = step((25, 300), (25, 400), (25, 500), (22.5, 600))
    buckets = [Ready(bucket.size, bucket.ready_ms) for bucket in measured.buckets]
    assert tail_ms(buckets, measured_cost(measured, LINK), 600) == pytest.approx(measured.tail_ms)


def test_a_compressing_hook_costs_its_encoding_as_well():
    measured = step((25, 300), (25, 400), (25, 500), (22.5, 600), sent=0.015, encode_ms=0.9, starts=2)
    cost = measured_cost(measured, LINK)
    assert cost(25 * MIB) == pytest.approx(25 * 0.9 + 2 * 0.5 + 25 * MIB * 0.015 / 117e3, rel=0.01)


def test_the_best_size_is_the_largest_of_those_that_are_alike():
    single = step((97.5, 600))
    found = best_size(single, LINK, step_ms=1484, exposed_ms=874)
    assert found[:2] == (5, 20)
    assert (found.tail_ms, found.gain_ms) == (pytest.approx(504.3, abs=0.1), pytest.approx(370, abs=0.1))
    # 10 MiB leave 519.8 ms: alike where that is within a hundredth of the step.
    assert best_size(single, LINK, step_ms=1600, exposed_ms=874).size_mb == 10


def test_a_longer_backward_pass_hands_over_later():
    buckets, end = stretched(step((50, 400), (50, 600)), 2)
    assert (buckets, end) == ([Ready(50 * MIB, 600), Ready(50 * MIB, 1000)], 1000)


def test_buckets_far_larger_than_the_cap_are_single_tensors():
    assert limited_by_cap(step((30, 400), (50, 600)), 25)
    assert not limited_by_cap(step((30, 400), (60, 600)), 25)
    assert limited_by_cap(step((1.5, 400), (50, 600)), None)
    assert not limited_by_cap(step((9, 600)), None)
