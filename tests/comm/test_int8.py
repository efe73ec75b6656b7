"""Eight bits an element: how exact, and in how many bytes."""

from __future__ import annotations

import pytest
import torch

from tests.comm import scenario
from trainer.comm.int8 import BLOCK, Int8, decode, encode, message_bytes


def test_an_element_is_off_by_half_a_level_at_most():
    rows = torch.randn(3, 4 * BLOCK) * torch.logspace(-6, 6, 3)[:, None]
    scales = rows.view(3, 4, BLOCK).abs().amax(-1) / 127
    error = (decode(encode(rows), torch.float32) - rows).view(3, 4, BLOCK).abs().amax(-1)
    assert (error <= scales * 0.5001).all()


def test_blocks_of_zeros_stay_zero():
    assert not decode(encode(torch.zeros(1, BLOCK)), torch.float32).any()


def test_the_largest_element_of_a_block_is_exact():
    rows = torch.zeros(1, BLOCK)
    rows[0, 3] = -1e-30
    torch.testing.assert_close(decode(encode(rows), torch.float32), rows, atol=0, rtol=1e-5)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_bytes_are_those_of_the_closed_form(workers, size):
    """2 (N - 1) / N (1 + 4 / 256) bytes an element, padded to whole blocks a rank; small tensors by a ring."""
    reported, _ = workers(size, scenario.bytes_of_a_step, Int8())[0]
    buckets = [2, 2, 1]
    large = sum(2 * (size - 1) * message_bytes(-(-1600 * n // (size * BLOCK)) * BLOCK) for n in buckets)
    small = sum(4 * (40 * n + 1) for n in buckets)
    assert reported == pytest.approx(large + 2 * (size - 1) / size * small)
    assert message_bytes(BLOCK) / BLOCK == 1 + 4 / 256
