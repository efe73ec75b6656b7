"""Corner cases of a stage: nothing to send back, whole numbers, frozen parts, weights that are no parameters."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from trainer.pipeline.stage import Stage


class _Apart(nn.Module):
    """Its output does not depend on its input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.ones_like(x.detach(), dtype=torch.float32))


@pytest.mark.parametrize("entered", [torch.randn(3, 4), torch.ones(3, 4, dtype=torch.int64)], ids=["real", "whole"])
@pytest.mark.parametrize("quiet", [False, True])
def test_a_stage_always_sends_a_gradient_back(entered, quiet):
    stage, sent = Stage(_Apart(), first=False, splits=False), []
    stage.forward(0, entered.clone(), torch.sum)
    stage.backward(0, torch.ones(()), sent.append, quiet)
    (gradient,) = sent
    assert gradient.shape == entered.shape
    assert not gradient.any()
    assert stage.module.layer.weight.grad is not None


def test_a_frozen_stage_sends_the_gradient_on():
    net = nn.Linear(4, 2).requires_grad_(False)
    stage, sent = Stage(net, first=False, splits=True), []
    stage.forward(0, torch.randn(3, 4), torch.sum)
    stage.backward(0, torch.ones(()), sent.append)
    stage.weights(0, last=True)
    torch.testing.assert_close(sent[0], net.weight.sum(0).expand(3, 4))


def _normed() -> nn.Module:
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 2))


def _frozen_bias() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2))
    net[0].bias.requires_grad_(False)
    return net


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("make", [_normed, _frozen_bias])
def test_split_passes_leave_what_is_no_plain_weight_to_autograd(make):
    torch.manual_seed(0)
    whole = make().double()
    state = whole.state_dict()
    split = make().double()
    split.load_state_dict(state)
    batches = [torch.randn(3, 6, dtype=torch.float64) for _ in range(3)]
    stage = Stage(split, first=True, splits=True)
    for number, batch in enumerate(batches):
        whole(copy.deepcopy(batch)).square().sum().backward()
        stage.forward(number, batch, lambda output: output.square().sum())
    for number in range(3):
        stage.backward(number, torch.ones((), dtype=torch.float64), print)
        stage.weights(number, last=number == 2)
    found = dict(split.named_parameters())
    for name, parameter in whole.named_parameters():
        if parameter.grad is None:
            assert found[name].grad is None
        else:
            torch.testing.assert_close(found[name].grad, parameter.grad, atol=1e-12, rtol=0)
