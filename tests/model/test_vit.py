"""The vision transformer reads an image as patches."""

from __future__ import annotations

import pytest
import torch

from trainer.model.vit import ViT
from trainer.sample import Sample
from trainer.spec import ConfigError

IMAGE = Sample("image", (3, 8, 12), 5)
SMALL = ViT(patch=4, depth=2, width=16, heads=2)


def test_a_batch_of_images_becomes_logits():
    assert SMALL.build(IMAGE)(torch.randn(4, 3, 8, 12)).shape == (4, 5)


def test_there_is_one_position_a_patch():
    assert SMALL.build(IMAGE).position.shape == (6, 16)


def test_every_patch_reaches_the_logits():
    module, image = SMALL.build(IMAGE), torch.randn(1, 3, 8, 12, requires_grad=True)
    module(image).sum().backward()
    patches = torch.nn.functional.unfold(image.grad, 4, stride=4)
    assert patches.abs().amax(dim=1).gt(0).all()


def test_parameters_are_named_by_layer_and_part():
    names = [name for name, _ in ViT(depth=1).build(IMAGE).named_parameters()]
    block = [
        f"layers.0.{part}.{kind}"
        for part in (
            "attention_norm",
            "attention.query",
            "attention.key",
            "attention.value",
            "attention.out",
            "feed_forward_norm",
            "feed_forward.up",
            "feed_forward.down",
        )
        for kind in ("weight", "bias")
    ]
    ends = ["norm.weight", "norm.bias", "head.weight", "head.bias"]
    assert names == ["position", "patches.weight", "patches.bias", *block, *ends]


def test_the_same_seed_gives_the_same_weights(build_twice):
    first, second, other = build_twice(SMALL, IMAGE)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["patches.weight"], other["patches.weight"])


def test_patches_that_do_not_tile_the_image_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=vit", "model.patch=3")
    assert str(caught.value) == "model.patch: patches of 3 do not tile images of 8x8; use a common divisor"


def test_heads_that_do_not_divide_the_width_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=vit", "model.heads=3")
    assert str(caught.value) == "model.heads: width 128 does not divide by 3 heads; use a divisor"


def test_tokens_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=vit", "data=text")
    assert str(caught.value) == (
        "model: ViT reads image samples, but data gives tokens of shape (64,); choose another model or data"
    )
