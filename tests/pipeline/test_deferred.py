"""Backward passes in two parts give the gradients of one."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from trainer.pipeline.stage import Stage


class _Shared(nn.Module):
    """A weight used twice, a frozen layer, norms that are not deferred, and a bias-free layer."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)
        self.frozen, self.out = nn.Linear(6, 6), nn.Linear(6, 3, bias=False)
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.twice(self.norm(self.twice(x).tanh()))
        return self.out(self.frozen(x))


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.Conv2d(4, 4, 3, dilation=2, padding=2, groups=2),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.Flatten(),
        nn.Linear(64, 3),
    )


CASES = [
    pytest.param(_Shared, (4, 6), id="linear"),
    pytest.param(_Shared, (4, 5, 6), id="linear over sequences"),
    pytest.param(_convolutions, (4, 2, 8, 8), id="convolution"),
]


def _gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("make", "shape"), CASES)
def test_the_two_parts_make_a_whole(make, shape, last, first):
    torch.manual_seed(0)
    whole = make().double()
    split = copy.deepcopy(whole)
    batches = [torch.randn(shape, dtype=torch.float64) for _ in range(2)]
    sent: list[Tensor] = []
    stage, wanted = Stage(split, first, splits=True), []
    for batch in batches:
        entered = batch.clone().requires_grad_(not first)
        whole(entered).square().sum().backward()
        wanted.append(entered.grad)
    for number, batch in enumerate(batches):
        stage.forward(number, batch.clone(), lambda output: output.square().sum())
    before = dict(_gradients(split))
    assert before == {}
    for number in range(2):
        stage.backward(number, torch.ones((), dtype=torch.float64), sent.append)
    # Gradients of activations are out before those of weights are computed.
    assert len(sent) == (0 if first else 2)
    assert not [name for name in _gradients(split) if name.startswith(("twice", "out", "0.", "2.", "6."))]
    stage.weights(0, last=False)
    stage.weights(1, last=last)
    for one, other in zip(sent, wanted, strict=first is False):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    found = _gradients(split)
    assert found.keys() == _gradients(whole).keys()
    for name, value in _gradients(whole).items():
        torch.testing.assert_close(found[name], value, atol=1e-12, rtol=0)


def test_the_last_part_completes_each_gradient_once_through_autograd():
    module = _Shared()
    seen: list[str] = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    stage = Stage(module, first=True, splits=True)
    for number in range(2):
        stage.forward(number, torch.randn(4, 6), torch.sum)
    stage.backward(0, torch.ones(()), print, quiet=True)
    stage.weights(0, last=False)
    assert seen == []
    stage.backward(1, torch.ones(()), print)
    stage.weights(1, last=True)
    assert sorted(seen) == ["norm.bias", "norm.weight", "out.weight", "twice.bias", "twice.weight"]


def test_under_autocast_products_are_in_bf16_and_gradients_in_fp32():
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
    split = copy.deepcopy(whole)
    x = torch.randn(4, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = whole(x).float().square().sum()
    loss.backward()
    stage = Stage(split, first=True, splits=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        stage.forward(0, x, lambda output: output.float().square().sum())
    stage.backward(0, torch.ones(()), print)
    stage.weights(0, last=True)
    for name, value in _gradients(whole).items():
        assert _gradients(split)[name].dtype == torch.float32
        # bf16 has 8 bits.
        torch.testing.assert_close(_gradients(split)[name], value, atol=2e-2, rtol=2e-2)
