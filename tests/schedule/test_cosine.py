"""The cosine schedule."""

from __future__ import annotations

import math

import pytest
import torch

from trainer.schedule.cosine import Cosine


def test_its_factors_are_those_of_torch():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10, eta_min=0.1)
    for step in range(11):
        assert Cosine(final=0.1).factor(step, 10) == pytest.approx(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()


def test_it_starts_full_is_half_in_the_middle_and_ends_at_nothing():
    assert [Cosine().factor(step, 8) for step in (0, 4, 8)] == pytest.approx([1.0, 0.5, 0.0])


def test_it_falls_from_the_end_of_the_warm_up_on():
    factors = [Cosine(warmup_steps=3).factor(step, 7) for step in range(8)]
    fall = [(1 + math.cos(math.pi * part / 4)) / 2 for part in range(5)]
    assert factors == pytest.approx([0.25, 0.5, 0.75, *fall])
