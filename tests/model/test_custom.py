"""A user's own module trains like ours, and says in one line why it cannot."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from trainer.model.custom import Custom
from trainer.sample import Sample
from trainer.spec import ConfigError

TOKENS, IMAGE = Sample("tokens", (4,), 3), Sample("image", (1, 8, 8), 10)


def net(width: int = 4) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def lazy_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))


def no_net() -> str:
    return "net"


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    return (output.mean(dim=1) - target).square().mean()


def refusal(make_run, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        make_run("model=custom", *overrides)
    return str(caught.value)


def test_the_module_is_what_the_factory_returns_for_its_arguments():
    module = Custom(factory=f"{__name__}:net", kwargs={"width": 7}).build(IMAGE)
    assert module[1].out_features == 7
    assert module(torch.randn(2, 1, 8, 8)).shape == (2, 10)


def test_it_resolves_for_images_and_for_tokens(make_run):
    for data in ("digits", "text"):
        run = make_run("model=custom", f"model.factory={__name__}:net", "+model.kwargs.width=5", f"data={data}")
        assert run.model == Custom(factory=f"{__name__}:net", kwargs={"width": 5})


def test_the_loss_is_cross_entropy_over_every_position():
    output, target = torch.randn(2, 4, 3), torch.randint(3, (2, 4))
    by_hand = -output.log_softmax(dim=-1).gather(-1, target[..., None]).mean()
    torch.testing.assert_close(Custom(factory="torch.nn:Identity").loss(output, target), by_hand)


def test_a_loss_of_the_users_own_replaces_it():
    output, target = torch.tensor([[1.0, 3.0]]), torch.tensor([5.0])
    model = Custom(factory="torch.nn:Identity", loss_function=f"{__name__}:squared_error")
    assert model.loss(output, target).item() == 9.0


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_such:net", "cannot import no_such (ModuleNotFoundError: No module named 'no_such'); check the name and"),
        (f"{__name__}:nat", f"{__name__} has no 'nat'; did you mean 'net'?"),
        (f"{__name__}.net", f"'{__name__}.net' is not of the form package.module:callable; write for example"),
        (f"{__name__}:TOKENS", f"{__name__}:TOKENS is a Sample, not a callable; name a function or a class"),
        (
            f"{__name__}:lazy_net",
            f"{__name__}:lazy_net returned lazy parameters, whose sizes no rank knows yet; run one",
        ),
        (f"{__name__}:no_net", f"{__name__}:no_net returned a str; it must return a torch.nn.Module"),
    ],
)
def test_a_factory_that_makes_no_module_is_refused(make_run, factory: str, message: str):
    assert refusal(make_run, f"model.factory={factory}").startswith(f"model.factory: {message}")


def test_arguments_that_the_factory_does_not_take_are_refused(make_run):
    assert refusal(make_run, f"model.factory={__name__}:net", "+model.kwargs.widht=5") == (
        f"model.factory: {__name__}:net failed with TypeError: net() got an unexpected keyword argument 'widht';"
        " check model.kwargs"
    )


def test_a_loss_function_that_does_not_exist_is_refused(make_run):
    assert refusal(make_run, f"model.factory={__name__}:net", f"model.loss_function={__name__}:squared") == (
        f"model.loss_function: {__name__} has no 'squared'; did you mean 'squared_error'?"
    )


def test_a_missing_factory_is_asked_for(make_run):
    assert refusal(make_run) == "model.factory: no value is given; set model.factory=<value>"
