"""The digits that come with the package are whole, split once for all, and scaled."""

from __future__ import annotations

import torch

from trainer.data.digits import Digits
from trainer.sample import Sample


def parts(seed: int = 0) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    split = Digits().build(seed)
    return split.train.tensors, split.evaluation.tensors


def test_all_images_are_there_and_look_as_announced():
    (images, labels), (others, other_labels) = parts()
    assert len(images) == Digits().count() == 1437
    assert len(images) + len(others) == 1797
    assert Digits().sample() == Sample("image", tuple(images.shape[1:]), 10) == Sample("image", (1, 8, 8), 10)
    assert images.dtype == others.dtype == torch.float32
    assert labels.dtype == other_labels.dtype == torch.int64


def test_both_parts_have_every_digit_in_about_equal_numbers():
    for labels, share in zip((part[1] for part in parts()), (143.7, 36.0), strict=True):
        counts = labels.bincount(minlength=10)
        assert len(counts) == 10
        assert counts.min() > 0.7 * share
        assert counts.max() < 1.3 * share


def test_no_image_is_in_both_parts():
    (images, _), (others, _) = parts()
    assert torch.cdist(others.flatten(1), images.flatten(1)).min() > 0


def test_pixels_are_scaled_to_about_zero_mean_and_unit_deviation():
    pixels = torch.cat([part[0] for part in parts()])
    assert abs(pixels.mean().item()) < 0.01
    assert abs(pixels.std().item() - 1) < 0.01
    raw = pixels * 0.376 + 0.305
    assert raw.min().abs() < 1e-6
    assert (raw.max() - 1).abs() < 1e-6


def test_the_split_is_the_same_whatever_the_seed():
    for mine, theirs in zip(parts(0), parts(1), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    parts()
    assert torch.equal(torch.get_rng_state(), before)
