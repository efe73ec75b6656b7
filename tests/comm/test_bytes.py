"""The bytes that hooks report: those of their collectives, and those of the closed forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.comm import scenario
from tests.comm.scenario import COMPRESSED, HALVES
from trainer.comm.int8 import Levels
from trainer.comm.onebit import Signs
from trainer.comm.topk import message_bytes

# The layers in each bucket: 1,600 elements that compress, and 40 that do not.
BUCKETS = (2, 2, 1)


def ring(size: int, elements: float, width: int = 4) -> float:
    """An all-reduce sends 2 (N - 1) / N times its bytes."""
    return 2 * (size - 1) / size * width * elements


def two_phase(blocks: Callable, size: int) -> float:
    """2 (N - 1) / N (b / 8 + 4 / B) bytes an element of b bits in blocks of B, padded to whole blocks a rank."""
    lengths = [-(-1600 * layers // (size * blocks.size)) * blocks.size for layers in BUCKETS]
    return sum(2 * (size - 1) * blocks().message_bytes(length) for length in lengths)


def gathered(size: int, width: int) -> float:
    """(N - 1) k (value + index), and a count a chunk of indices; 5 % of the elements travel."""
    return sum((size - 1) * message_bytes(80 * layers, 1600 * layers, width) for layers in BUCKETS)


# Small tensors travel by a ring, with the number that finds NaN.
SMALL = sum(40 * layers + 1 for layers in BUCKETS)
LARGE: dict[str, Callable[[int], float]] = {
    "topk": lambda size: gathered(size, 4),
    "topk-warmup": lambda size: gathered(size, 4),
    "topk-fp16": lambda size: gathered(size, 2),
    "randomk": lambda size: ring(size, 0.05 * 1600 * 5),
    "int8": lambda size: two_phase(Levels, size),
    "onebit": lambda size: two_phase(Signs, size),
    "powersgd": lambda size: ring(size, 5 * 2 * (40 + 40)),
}
HALF = 5 * 1640


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_they_are_those_of_the_collectives_and_of_the_closed_form(workers, size):
    for rank in workers(size, scenario.each, scenario.bytes_of_a_step, HALVES | COMPRESSED):
        for name, (reported, sent) in rank.items():
            closed = ring(size, HALF, 2) if name in HALVES else LARGE[name](size) + ring(size, SMALL)
            assert reported == pytest.approx(sent), name
            assert reported == pytest.approx(closed), name


def test_an_element_takes_its_bits_and_a_share_of_a_scale():
    assert Levels().message_bytes(256) / 256 == 1 + 4 / 256
    assert Signs().message_bytes(1024) / 1024 == 1 / 8 + 4 / 1024
