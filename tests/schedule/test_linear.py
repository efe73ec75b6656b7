"""The linear schedule."""

from __future__ import annotations

import pytest

from trainer.schedule.linear import Linear


def test_the_rate_falls_in_equal_steps():
    assert [Linear().factor(step, 4) for step in range(5)] == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])


def test_it_ends_at_the_final_factor():
    assert [Linear(final=0.2).factor(step, 4) for step in range(5)] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])


def test_it_falls_from_the_end_of_the_warm_up_on():
    factors = [Linear(warmup_steps=2).factor(step, 6) for step in range(7)]
    assert factors == pytest.approx([1 / 3, 2 / 3, 1.0, 0.75, 0.5, 0.25, 0.0])
