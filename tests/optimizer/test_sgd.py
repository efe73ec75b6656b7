"""SGD is torch's own, with weight decay on matrices only."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainer.optimizer.sgd import SGD
from trainer.spec import ConfigError

MATRICES = {"1.weight", "3.weight"}
VECTORS = {"1.bias", "2.weight", "2.bias", "3.bias"}


def test_only_matrices_decay_and_frozen_parameters_are_left_out(module, names):
    groups = SGD(weight_decay=0.3).build(module).param_groups
    assert {group["weight_decay"]: names(module, group["params"]) for group in groups} == {0.3: MATRICES, 0.0: VECTORS}


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_its_steps_are_those_of_torch(trained, momentum: float, nesterov: bool):
    def theirs(module: nn.Module) -> torch.optim.Optimizer:
        first, norm, last = module[1:]
        vectors = [first.bias, *norm.parameters(), last.bias]
        groups = [{"params": [first.weight, last.weight], "weight_decay": 0.2}, {"params": vectors}]
        return torch.optim.SGD(groups, lr=0.1, momentum=momentum, nesterov=nesterov, fused=True)

    ours = SGD(lr=0.1, momentum=momentum, weight_decay=0.2, nesterov=nesterov)
    for mine, other in zip(trained(ours.build), trained(theirs), strict=True):
        assert torch.equal(mine, other)


def test_nesterov_without_momentum_is_plain_descent(trained):
    with_flag, without = (trained(SGD(momentum=0.0, nesterov=nesterov).build) for nesterov in (True, False))
    assert all(torch.equal(one, other) for one, other in zip(with_flag, without, strict=True))


def test_a_module_of_vectors_alone_has_one_group():
    assert len(SGD().build(nn.LayerNorm(4)).param_groups) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "weight_decay=-1",
            "-1 is not allowed: input should be greater than or equal to 0; weight_decay is the L2 penalty",
        ),
        ("momentum=1", "1 is not allowed: input should be less than 1; momentum is the share of the last update"),
    ],
)
def test_a_value_out_of_range_is_refused(make_run, option: str, message: str):
    with pytest.raises(ConfigError) as caught:
        make_run("optimizer=sgd", f"optimizer.{option}")
    assert str(caught.value).startswith(f"optimizer.{option.partition('=')[0]}: {message}")
