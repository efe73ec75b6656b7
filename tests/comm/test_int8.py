"""Eight bits an element: how exact, and in how many bytes."""

from __future__ import annotations

import torch

from trainer.comm.int8 import Levels

BLOCKS = Levels()


def _there_and_back(flat: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What a message says of `flat`, and what it does not."""
    lost = flat.clone()
    message = torch.empty(BLOCKS.message_bytes(len(flat)), dtype=torch.uint8)
    return BLOCKS.decode(BLOCKS.encode(lost, message), torch.empty_like(flat)), lost


def test_an_element_is_off_by_half_a_level_at_most():
    flat = torch.randn(3 * 4 * BLOCKS.size) * torch.logspace(-6, 6, 3).repeat_interleave(4 * BLOCKS.size)
    said, lost = _there_and_back(flat)
    half_a_level = flat.view(-1, BLOCKS.size).abs().amax(1) / 127 * 0.5001
    assert (lost.view(-1, BLOCKS.size).abs().amax(1) <= half_a_level).all()
    torch.testing.assert_close(said + lost, flat)


def test_what_is_said_and_what_is_lost_are_exactly_the_whole():
    flat = torch.randn(5 * BLOCKS.size, dtype=torch.float64)
    said, lost = _there_and_back(flat)
    torch.testing.assert_close(said + lost, flat, atol=1e-15, rtol=0)


def test_blocks_of_zeros_stay_zero_and_smaller_ones_than_floats_can_divide_by_are_lost_whole():
    for value in (0.0, 1e-41, -1e-44):
        flat = torch.full((BLOCKS.size,), value)
        said, lost = _there_and_back(flat)
        assert not said.any()
        assert torch.equal(lost, flat)


def test_the_largest_element_of_a_block_is_exact():
    flat = torch.zeros(BLOCKS.size)
    flat[3] = -1e-30
    torch.testing.assert_close(_there_and_back(flat)[0], flat, atol=0, rtol=1e-5)


def test_messages_that_are_added_up_are_what_they_stand_for():
    flat, message = torch.randn(BLOCKS.size), torch.empty(BLOCKS.message_bytes(BLOCKS.size), dtype=torch.uint8)
    BLOCKS.encode(flat.clone(), message)
    total = torch.ones_like(flat)
    BLOCKS.add(message, total)
    assert torch.equal(total, BLOCKS.decode(message, torch.empty_like(flat)) + 1)
