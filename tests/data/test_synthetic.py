"""Made-up data has the shape that was asked for, and something to learn."""

from __future__ import annotations

import pytest
import torch

from trainer.data.synthetic import Synthetic
from trainer.sample import Sample
from trainer.spec import ConfigError


def test_images_look_as_announced():
    data = Synthetic(shape=(2, 4, 6), classes=3, samples=80)
    assert data.sample() == Sample("image", (2, 4, 6), 3)
    split = data.build(0)
    assert len(split.train) == data.count() == 80
    assert len(split.evaluation) == 10
    image, label = split.train[0]
    assert image.shape == (2, 4, 6)
    assert image.dtype == torch.float32
    assert label.dtype == torch.int64
    assert split.train.tensors[1].unique().tolist() == [0, 1, 2]


def test_an_image_is_recognised_by_the_mean_of_its_class():
    split = Synthetic(samples=400, classes=10).build(0)
    images, labels = split.train.tensors
    means = torch.stack([images[labels == label].mean(dim=0).flatten() for label in range(10)])
    others, other_labels = split.evaluation.tensors
    guesses = torch.cdist(others.flatten(1), means).argmin(dim=1)
    assert (guesses == other_labels).float().mean() > 0.9


def test_tokens_count_upwards_and_the_target_is_the_next_one():
    data = Synthetic(kind="tokens", shape=(7,), classes=5, samples=16)
    assert data.sample() == Sample("tokens", (7,), 5)
    tokens, targets = data.build(0).train.tensors
    assert tokens.shape == targets.shape == (16, 7)
    assert torch.equal((tokens + 1) % 5, targets)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])


@pytest.mark.parametrize("data", [Synthetic(samples=8), Synthetic(kind="tokens", shape=(9,), samples=8)])
def test_samples_depend_on_the_seed_alone(data: Synthetic):
    first, again, other = (data.build(seed).train.tensors[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_few_samples_leave_one_to_evaluate():
    assert len(Synthetic(samples=2).build(0).evaluation) == 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["data.shape=[64]"],
            "data.shape: image samples have 3 sizes, got [64]; write for example data.shape=[3,32,32]",
        ),
        (
            ["data.kind=tokens", "model=gpt"],
            "data.shape: tokens samples have 1 sizes, got [3, 32, 32]; write for example data.shape=[64]",
        ),
    ],
)
def test_a_shape_that_does_not_suit_the_kind_is_refused(make_run, overrides: list[str], message: str):
    with pytest.raises(ConfigError) as caught:
        make_run("data=synthetic", *overrides)
    assert str(caught.value) == message
