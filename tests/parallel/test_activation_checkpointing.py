"""Layers that forget their activations: the same gradients for less memory and more computing."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from trainer.model.gpt import GPT
from trainer.model.mlp import MLP
from trainer.model.resnet import ResNet
from trainer.model.vit import ViT
from trainer.parallel.activation_checkpointing import checkpoint_activations
from trainer.sample import Sample

IMAGE, TOKENS = Sample("image", (1, 8, 8), 10), Sample("tokens", (16,), 64)
MODELS = [
    pytest.param(MLP(width=32, depth=3), IMAGE, id="mlp"),
    pytest.param(ViT(depth=3, width=32, dropout=0.1), IMAGE, id="vit"),
    pytest.param(GPT(depth=3, width=32, dropout=0.1), TOKENS, id="gpt"),
    pytest.param(ResNet(), IMAGE, id="resnet"),
]


def _inputs(sample):
    return torch.randint(64, (4, 16)) if sample.kind == "tokens" else torch.randn(4, *sample.shape)


def _backward(net: nn.Module, x: torch.Tensor) -> tuple[dict[str, torch.Tensor], int]:
    """Gradients by name, and the bytes that the forward pass kept."""
    kept: dict[int, int] = {}
    own = {p.untyped_storage().data_ptr() for p in net.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    torch.manual_seed(5)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = net(x).square().mean()
    loss.backward()
    return {name: p.grad.clone() for name, p in net.named_parameters()}, sum(kept.values())


@pytest.mark.parametrize("which", ["full", 2])
@pytest.mark.parametrize(("model", "sample"), MODELS)
def test_gradients_are_bitwise_the_same_also_with_dropout(model, sample, which):
    torch.manual_seed(0)
    plain, x = model.build(sample), _inputs(sample)
    torch.manual_seed(0)
    forgetful = model.build(sample)
    checkpoint_activations(forgetful, which)
    assert list(forgetful.state_dict()) == list(plain.state_dict())
    wanted, kept = _backward(plain, x)
    gradients, kept_less = _backward(forgetful, x)
    assert all(torch.equal(gradients[name], value) for name, value in wanted.items())
    if sample.kind == "tokens" or isinstance(model, ViT):
        assert kept_less < (0.5 if which == "full" else 0.8) * kept


def test_every_second_layer_is_computed_twice():
    net = GPT(depth=4, width=32).build(TOKENS)
    calls = [0] * 4
    for number, layer in net.layers.items():
        layer.attention.register_forward_pre_hook(lambda *_, n=int(number): calls.__setitem__(n, calls[n] + 1))
    checkpoint_activations(net.layers, 2)
    _backward(net, _inputs(TOKENS))
    assert calls == [2, 1, 2, 1]


def test_evaluation_computes_once():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    calls = []
    net[0].register_forward_hook(lambda *_: calls.append(1))
    checkpoint_activations(net, "full")
    with torch.no_grad():
        net(torch.randn(2, 4))
    assert calls == [1]


def test_running_statistics_see_each_batch_once():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    forgetful = copy.deepcopy(plain)
    checkpoint_activations(forgetful, "full")
    for net in (plain, forgetful):
        for number in range(3):
            net(torch.full((3, 4), 1.0 + number) + torch.eye(3, 4)).sum().backward()
    for name, buffer in plain.named_buffers():
        assert torch.equal(dict(forgetful.named_buffers())[name], buffer), name
    assert forgetful[0][1].momentum == 0.1
