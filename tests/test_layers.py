"""What counts as a layer, in models of several kinds."""

from __future__ import annotations

import pytest
import torch
import torchvision
from torch import nn

from trainer.layers import layers_of


class _Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(5, 4), nn.Parameter(torch.zeros(3, 4))
        self.layers = nn.ModuleDict({str(number): nn.TransformerEncoderLayer(4, 1, 8) for number in range(3)})
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.token.weight


def _resnet() -> nn.Module:
    return torchvision.models.resnet18()


def _nested() -> nn.Module:
    return nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), nn.BatchNorm1d(2))


# Position, token, three blocks and norm, since the head has nothing of its own; first convolution and norm, two blocks
# in each of four stages, and head; each linear layer, and the norm.
@pytest.mark.parametrize(("make", "count"), [(_Transformer, 6), (_resnet, 11), (_nested, 3)])
def test_blocks_are_layers_and_every_parameter_is_in_one(make, count):
    model = make()
    layers = layers_of(model)
    assert len(layers) == count
    found = [id(p) for layer in layers for p in layer]
    assert sorted(found) == sorted(id(p) for p in model.parameters())


def test_what_is_not_trained_is_in_no_layer():
    model = _nested()
    model[0][0].requires_grad_(False)
    assert len(layers_of(model)) == 2
