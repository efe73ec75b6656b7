"""Any optimizer of torch can be named, and one that cannot work is refused before a process starts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainer.optimizer.by_name import ByName
from trainer.spec import ConfigError


def refusal(make_run, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        make_run("optimizer=by_name", *overrides)
    return str(caught.value)


@pytest.mark.parametrize("class_name", ["Adagrad", "Adam", "NAdam", "RAdam", "RMSprop", "SGD"])
def test_its_steps_are_those_of_torch(make_run, trained, class_name: str):
    def theirs(module: nn.Module) -> torch.optim.Optimizer:
        return getattr(torch.optim, class_name)([p for p in module.parameters() if p.requires_grad], lr=0.02)

    ours = make_run("optimizer=by_name", f"optimizer.class_name={class_name}", "optimizer.lr=0.02").optimizer
    for mine, other in zip(trained(ours.build), trained(theirs), strict=True):
        assert torch.equal(mine, other)


def test_options_reach_the_class(make_run):
    run = make_run("optimizer=by_name", "optimizer.class_name=NAdam", "+optimizer.options.momentum_decay=0.01")
    assert run.optimizer.build(nn.Linear(2, 2)).param_groups[0]["momentum_decay"] == 0.01


def test_frozen_parameters_are_left_out(module, names):
    groups = ByName().build(module).param_groups
    assert len(groups) == 1
    assert names(module, groups[0]["params"]) == {name for name, _ in module.named_parameters()} - {"0.weight"}


@pytest.mark.parametrize("class_name", ["RMSProp", "Optimizer", "lr_scheduler"])
def test_a_class_that_torch_lacks_is_refused(make_run, class_name: str):
    message = refusal(make_run, f"optimizer.class_name={class_name}")
    assert message.startswith(f"optimizer.class_name: torch.optim has no '{class_name}'; ")


def test_the_class_that_was_probably_meant_is_suggested(make_run):
    assert refusal(make_run, "optimizer.class_name=RMSProp") == (
        "optimizer.class_name: torch.optim has no 'RMSProp'; did you mean 'RMSprop'?"
    )


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [("LBFGS", "it evaluates the loss several times a step"), ("SparseAdam", "DDP reduces dense gradients")],
)
def test_a_class_that_no_distributed_loop_can_serve_is_refused(make_run, class_name: str, reason: str):
    assert refusal(make_run, f"optimizer.class_name={class_name}") == (
        f"optimizer.class_name: {class_name} cannot train here: {reason}; choose a first-order optimizer such as"
        " RMSprop"
    )


def test_an_unknown_option_is_refused(make_run):
    assert refusal(make_run, "+optimizer.options.alfa=0.9") == (
        "optimizer.options.alfa: RMSprop has no such argument; did you mean 'alpha'?"
    )


@pytest.mark.parametrize("option", ["params", "lr"])
def test_what_is_set_elsewhere_is_no_option(make_run, option: str):
    message = refusal(make_run, f"+optimizer.options.{option}=1")
    assert message.startswith(f"optimizer.options.{option}: RMSprop has no such argument; ")


def test_a_value_that_the_class_refuses_is_refused_with_its_reason(make_run):
    assert refusal(make_run, "+optimizer.options.alpha=-1") == (
        "optimizer.options: RMSprop refuses them: Invalid alpha value: -1; change the value"
    )


def test_every_class_of_torch_resolves_and_trains_or_is_refused(make_run):
    for name, cls in vars(torch.optim).items():
        if not isinstance(cls, type) or not issubclass(cls, torch.optim.Optimizer) or cls is torch.optim.Optimizer:
            continue
        try:
            optimizer = make_run("optimizer=by_name", f"optimizer.class_name={name}").optimizer
        except ConfigError as error:
            assert str(error).startswith("optimizer"), name  # noqa: PT017 - some are refused and some are not
            continue
        net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        net(torch.randn(2, 4)).square().sum().backward()
        before = net[0].weight.clone()
        optimizer.build(net).step()
        assert not torch.equal(net[0].weight, before), name
