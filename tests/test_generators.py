"""Random streams: seeded, kept, and taken up again."""

from __future__ import annotations

import random

import numpy
import pytest
import torch

from trainer import generators


def draw() -> tuple[float, ...]:
    """One of each; NumPy makes normal numbers in pairs, of which the second waits in its state."""
    return torch.rand(()).item(), random.random(), numpy.random.normal(), numpy.random.random()


def disturbed() -> None:
    with generators.kept():
        generators.seed_host(5)
        draw()
        raise ZeroDivisionError


@pytest.mark.parametrize("seed", [generators.seed, generators.seed_host])
def test_a_seed_begins_every_stream(seed):
    seed(2**40 + 7)
    first = draw()
    seed(8)
    assert not set(first) & set(draw())
    seed(2**40 + 7)
    assert draw() == first


def test_what_is_drawn_within_changes_nothing_after_it():
    generators.seed(1)
    wanted = draw()
    generators.seed(1)
    with pytest.raises(ZeroDivisionError):
        disturbed()
    assert draw() == wanted


def test_streams_go_on_from_a_checkpoint():
    generators.seed(1)
    draw()
    stored = generators.states()
    wanted = [draw() for _ in range(3)]
    generators.seed(9)
    generators.go_on(stored)
    assert [draw() for _ in range(3)] == wanted


def test_a_checkpoint_of_earlier_times_tells_nothing_of_numpy():
    stored = generators.states()
    del stored["numpy"]
    numpy.random.seed(3)
    generators.go_on(stored)
    assert numpy.random.random() == numpy.random.RandomState(3).random()
