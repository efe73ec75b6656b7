"""The perceptron maps any image to its classes."""

from __future__ import annotations

import pytest
import torch

from trainer.model.mlp import MLP
from trainer.sample import Sample
from trainer.spec import ConfigError

IMAGE = Sample("image", (3, 8, 6), 5)


def test_a_batch_of_images_becomes_logits():
    assert MLP().build(IMAGE)(torch.randn(4, 3, 8, 6)).shape == (4, 5)


def test_depth_and_width_are_those_of_the_hidden_layers():
    shapes = [tuple(weight.shape) for weight in MLP(depth=3, width=16).build(IMAGE).parameters() if weight.dim() == 2]
    assert shapes == [(16, 144), (16, 16), (16, 16), (5, 16)]


def test_hidden_layers_are_not_linear():
    module = MLP(depth=1).build(IMAGE)
    x = torch.randn(4, 3, 8, 6)
    zero = module(torch.zeros_like(x))
    assert not torch.allclose(module(x) - zero, -(module(-x) - zero), atol=1e-4)


def test_the_same_seed_gives_the_same_weights(build_twice):
    first, second, other = build_twice(MLP(), IMAGE)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_tokens_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=mlp", "data=text")
    assert str(caught.value) == (
        "model: MLP reads image samples, but data gives tokens of shape (64,); choose another model or data"
    )
