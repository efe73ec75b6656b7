"""A user's own data sets are taken as they are, and refused in one line where they cannot be."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from trainer.data.custom import Custom
from trainer.sample import Sample
from trainer.spec import ConfigError


def images(side: int = 4) -> tuple[TensorDataset, TensorDataset]:
    pixels = torch.arange(80 * side * side).float().reshape(80, 1, side, side)
    labels = torch.arange(80) % 3
    return TensorDataset(pixels[:70], labels[:70]), TensorDataset(pixels[70:], labels[70:])


def tokens() -> list[TensorDataset]:
    text = torch.arange(80 * 6).reshape(80, 6) % 9
    return [TensorDataset(text, text), TensorDataset(text[:5], text[:5])]


def one_set() -> TensorDataset:
    return images()[0]


def streams() -> tuple[object, object]:
    return iter([]), iter([])


def empty() -> tuple[list, list]:
    return [], []


def words() -> tuple[list, list]:
    return [("a", 0)] * 80, [("b", 1)]


def refusal(make_run, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        make_run("model=mlp", "data=custom", *overrides)
    return str(caught.value)


def test_the_sets_are_those_of_the_factory():
    data = Custom(factory=f"{__name__}:images", kwargs={"side": 5}, classes=3)
    assert data.sample() == Sample("image", (1, 5, 5), 3)
    assert data.count() == 70
    split = data.build(0)
    assert split.train[1][0].flatten().tolist() == list(range(25, 50))
    assert split.evaluation[0][1].item() == 70 % 3


def test_integer_vectors_are_tokens():
    assert Custom(factory=f"{__name__}:tokens", classes=9).sample() == Sample("tokens", (6,), 9)


def test_a_run_resolves_with_them(make_run):
    run = make_run("model=mlp", "data=custom", f"data.factory={__name__}:images", "+data.kwargs.side=6")
    assert run.data == Custom(factory=f"{__name__}:images", kwargs={"side": 6})


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_such:make", "cannot import no_such (ModuleNotFoundError: No module named 'no_such'); check the name and"),
        (f"{__name__}:imags", f"{__name__} has no 'imags'; did you mean 'images'?"),
        (
            f"{__name__}:one_set",
            f"{__name__}:one_set returned TensorDataset; it must return (train, evaluation), two data sets with __len__"
            " and __getitem__",
        ),
        (
            f"{__name__}:streams",
            f"{__name__}:streams returned tuple; it must return (train, evaluation), two data sets with __len__ and"
            " __getitem__",
        ),
    ],
)
def test_a_factory_that_makes_no_two_sets_is_refused(make_run, factory: str, message: str):
    assert refusal(make_run, f"data.factory={factory}").startswith(f"data.factory: {message}")


def test_arguments_that_the_factory_does_not_take_are_refused(make_run):
    assert refusal(make_run, f"data.factory={__name__}:images", "+data.kwargs.sides=6") == (
        f"data.factory: {__name__}:images failed with TypeError: images() got an unexpected keyword argument 'sides';"
        " check data.kwargs"
    )


@pytest.mark.parametrize("factory", [empty, words])
def test_a_first_sample_that_is_no_tensor_is_refused(make_run, factory):
    message = refusal(make_run, f"data.factory={__name__}:{factory.__name__}")
    assert message.startswith(f"data.factory: the first training sample of {__name__}:{factory.__name__} ")


def test_a_missing_factory_is_asked_for(make_run):
    assert refusal(make_run) == "data.factory: no value is given; set data.factory=<value>"
