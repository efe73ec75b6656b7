"""Signs as bits."""

from __future__ import annotations

import torch

from trainer.comm import bits


def test_what_is_packed_comes_back_as_signs():
    positive = torch.rand(5, 64, generator=torch.Generator().manual_seed(0)) > 0.5
    packed = bits.pack(positive)
    assert packed.shape == (5, 8)
    assert packed.dtype == torch.uint8
    assert torch.equal(bits.signs(packed, torch.float32) > 0, positive)
    assert bits.signs(packed, torch.float64).abs().eq(1).all()


def test_the_first_element_is_the_highest_bit():
    assert bits.pack(torch.tensor([True] + [False] * 7)).tolist() == [128]


def test_the_sign_of_a_zero_is_its_own():
    assert bits.negative(torch.tensor([1.0, -1.0, 0.0, -0.0])).tolist() == [False, True, False, True]
