"""Cutting models: any of ours and most of users', with names and numbers as they were, or a reason why not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from trainer.model.base import Model
from trainer.model.gpt import GPT
from trainer.model.mlp import MLP
from trainer.model.replay import Replay
from trainer.model.resnet import ResNet
from trainer.model.vit import ViT
from trainer.pipeline.cut import Chain
from trainer.sample import Sample
from trainer.spec import ConfigError

IMAGE, TOKENS = Sample("image", (1, 8, 8), 10), Sample("tokens", (16,), 64)
MODELS = [
    pytest.param(MLP(), IMAGE, ["1", "3", "5"], id="mlp"),
    pytest.param(ViT(depth=2), IMAGE, ["patches", "layers.0", "layers.1", "norm", "head"], id="vit"),
    pytest.param(GPT(depth=1), TOKENS, ["token", "layers.0", "norm", "head"], id="gpt"),
    pytest.param(
        ResNet(),
        IMAGE,
        ["conv1", "bn1", *(f"layer{n}.{m}" for n in (1, 2, 3, 4) for m in (0, 1)), "fc"],
        id="resnet",
    ),
    pytest.param(ResNet(variant="resnet50"), IMAGE, None, id="resnet50"),
    pytest.param(Replay(time_scale=1e-3), IMAGE, None, id="replay"),
]


@pytest.mark.parametrize(("model", "sample", "layers"), MODELS)
def test_a_chain_of_stages_is_the_model(model: Model, sample: Sample, layers):
    torch.manual_seed(0)
    net = model.build(sample).eval()
    chain = Chain(net, "auto")
    if layers is not None:
        assert [unit.layer for unit in chain.units] == layers
    x = torch.randint(64, (4, 16)) if sample.kind == "tokens" else torch.randn(4, *sample.shape)
    wanted, names, left = net(x), [], x
    for first, stop in chain.bounds([1, len(chain.units) // 2 + 1]):
        kept = chain.keep([(first, stop)])
        module = chain.module(first, stop, kept)
        left = module(left)
        assert {id(p) for p in module.parameters()} == {id(p) for p in kept.parameters()}
        names += list(kept.state_dict())
    assert torch.equal(left, wanted)
    assert sorted(names) == sorted(net.state_dict())
    assert list(net.state_dict()) == [name for name in net.state_dict() if name in names], "the model is as it was"


def test_several_stages_of_a_rank_share_one_module_without_the_layers_between():
    net = ViT(depth=4).build(IMAGE)
    chain = Chain(net, "auto")
    kept = chain.keep([(0, 2), (4, 5)])
    assert {name.rsplit(".", 1)[0].split(".attention")[0] for name in kept.state_dict() if "layers" in name} >= {
        "layers.0",
        "layers.3",
    }
    assert not [name for name in kept.state_dict() if name.startswith(("layers.1", "layers.2", "norm", "head"))]


class _Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        x = self.first(x)
        return self.third(self.second(x)) + x * scale


class _Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))
        self.arm = _Skip()

    def forward(self, x: Tensor) -> Tensor:
        return self.arm(self.trunk(x))


class _Depends(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.layer = how, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        if self.how == "input" and x.sum() > 0:
            return x + 1
        return nn.functional.dropout(x, training=self.training) if self.how == "mode" else x


class _Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.spare = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def test_layers_that_a_skip_connection_spans_stay_together():
    assert [unit.layer for unit in Chain(_Skip(), "auto").units] == ["first", "second"]


def test_sequences_are_cut_inside_and_a_users_module_where_it_is_named():
    assert [unit.layer for unit in Chain(_Nested(), "auto").units] == ["trunk.0", "trunk.1.1", "arm"]
    chain = Chain(_Nested(), ["arm.first", "arm.second"])
    assert [chain.units[number].layer for number in chain.begins] == ["arm.first", "arm.second"]


@pytest.mark.parametrize(
    ("model", "split", "message"),
    [
        (
            _Skip(),
            ["third"],
            "2 tensors pass into third and beyond (first, second), and a stage takes one, so a skip connection would",
        ),
        (_Skip(), ["secnd"], "the model has no layer 'secnd'; did you mean 'second'?"),
        (_Skip(), ["second", "second"], "a layer is named twice; name each layer that begins a stage once"),
        (_Nested(), ["trunk.1.0"], "no layer begins with trunk.1.0, since it has no weights that are"),
        (
            _Depends("input"),
            "auto",
            "_Depends.forward cannot be cut, since it does not run the same way for every input",
        ),
        (_Depends("mode"), "auto", "_Depends.forward does not do the same in training and in evaluation; move what"),
        (_Unused(), "auto", "spare.weight is not used by the forward pass, so it belongs to no stage; remove it"),
        (_Tied(), "auto", "first.weight is used by several layers (first, second), which may lie on several ranks"),
        (
            nn.Sequential(nn.ReLU()),
            "auto",
            "the model calls no layer with weights to train, so there is nothing",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused_with_the_reason(model, split, message):
    with pytest.raises(ConfigError) as refused:
        Chain(model, split)
    assert str(refused.value).startswith("parallel.pipeline.split: ")
    assert message in str(refused.value)


def test_frozen_layers_go_with_the_next_that_learns():
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
    for number in (0, 1, 3):
        net[number].requires_grad_(False)
    assert [unit.layer for unit in Chain(net, "auto").units] == ["2", "4"]
