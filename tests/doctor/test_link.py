"""What starting a transfer and sending a byte cost, told from spans."""

from __future__ import annotations

import random

import pytest

from tests.doctor.scene import MIB, Queue, over
from trainer.doctor.link import ASSUMED_START_MS, fit
from trainer.doctor.recorded import Step, Transfer, recorded


def step(*transfers: Transfer) -> Step:
    return Step(0.1, 0.0, 100.0, list(transfers), list(transfers))


def test_both_costs_are_told_apart_where_sizes_differ():
    evidence = over(Queue((0, 100), start_ms=2, mb_per_s=500), [(0.1, 10), (1, 20), (25, 50), (5, 100)])
    link = fit(recorded(evidence), "cuda")
    assert link is not None
    assert link.separated
    assert (link.start_ms, link.gbit) == (pytest.approx(2), pytest.approx(4))
    assert link.ms(MIB, starts=3) == pytest.approx(6 + 1000 * MIB / 500e6)


def test_a_spread_of_some_percent_moves_neither_much():
    draw = random.Random(1)
    sizes = [MIB * size for size in (0.1, 1, 5, 25)] * 16
    steps = [
        step(Transfer(size, size, 0.0, (1 + size / 1e5) * draw.gauss(1, 0.1))) for size in sizes
    ]  # fmt: skip
    link = fit(steps, "cpu")
    assert link is not None
    assert (link.start_ms, 1 / link.ms_per_byte) == (pytest.approx(1, rel=0.2), pytest.approx(1e5, rel=0.1))


def test_sizes_that_are_alike_leave_the_start_assumed():
    evidence = over(Queue((0, 400), start_ms=0, mb_per_s=100), [(10, 100), (11, 400)])
    for device, assumed in ASSUMED_START_MS.items():
        link = fit(recorded(evidence), device)
        assert link is not None
        assert not link.separated
        assert link.start_ms == assumed
        assert 2 * link.start_ms + 21 * MIB * link.ms_per_byte == pytest.approx(21 * MIB / 1e5)


def test_an_assumed_start_never_takes_all_of_the_time():
    link = fit([step(Transfer(100, 100, 0.0, 0.4))], "cpu")
    assert link is not None
    assert (link.start_ms, link.ms_per_byte) == (pytest.approx(0.2), pytest.approx(0.002))


def test_larger_transfers_that_take_no_longer_leave_a_rate_that_is_positive():
    link = fit([step(Transfer(100, 100, 0.0, 3.0)), step(Transfer(1000, 1000, 0.0, 2.0))], "cpu")
    assert link is not None
    assert link.ms_per_byte > 0


def test_nothing_sent_is_no_link():
    assert fit([], "cpu") is None
    assert fit([step(Transfer(100, 0, 0.0, 3.0))], "cpu") is None


def test_noise_is_not_taken_for_a_start():
    draw = random.Random(2)
    sizes = [MIB, 5 * MIB] * 6
    link = fit([step(Transfer(size, size, 0.0, size / 1e5 * draw.uniform(0.5, 2))) for size in sizes], "cuda")
    assert link is not None
    assert not link.separated


def test_one_step_that_was_disturbed_does_not_move_the_rate():
    steady, disturbed = step(Transfer(1e6, 1e6, 0.0, 10.0)), step(Transfer(1e6, 1e6, 0.0, 500.0))
    link = fit([steady, disturbed, steady], "cuda")
    assert link is not None
    assert link.ms(1e6) == pytest.approx(10)
