"""AdamW is torch's own, with weight decay on matrices only."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainer.optimizer.adamw import AdamW
from trainer.spec import ConfigError


def test_only_matrices_decay_and_frozen_parameters_are_left_out(module, names):
    groups = AdamW(weight_decay=0.3).build(module).param_groups
    assert {group["weight_decay"]: names(module, group["params"]) for group in groups} == {
        0.3: {"1.weight", "3.weight"},
        0.0: {"1.bias", "2.weight", "2.bias", "3.bias"},
    }


def test_its_steps_are_those_of_torch(trained):
    def theirs(module: nn.Module) -> torch.optim.Optimizer:
        matrices, others = (
            [module[1].weight, module[3].weight],
            [module[1].bias, *module[2].parameters(), module[3].bias],
        )
        groups = [{"params": matrices, "weight_decay": 0.2}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=0.01, betas=(0.8, 0.9), eps=1e-6, fused=True)

    ours = AdamW(lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.2)
    for mine, other in zip(trained(ours.build), trained(theirs), strict=True):
        assert torch.equal(mine, other)


def test_betas_come_from_a_list_of_two(make_run):
    assert make_run("optimizer=adamw", "optimizer.betas=[0.5,0.6]").optimizer.betas == (0.5, 0.6)
    with pytest.raises(ConfigError) as caught:
        make_run("optimizer=adamw", "optimizer.betas=[0.5,1.0]")
    assert str(caught.value) == "optimizer.betas.1: 1.0 is not allowed: input should be less than 1"
