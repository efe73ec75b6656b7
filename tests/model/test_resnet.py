"""torchvision's residual networks get a stem that suits the image."""

from __future__ import annotations

import pytest
import torch
import torchvision

from trainer.model.resnet import ResNet
from trainer.sample import Sample
from trainer.spec import ConfigError


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("stem", "side", "kernel", "features"),
    [
        ("small", 64, 3, 64),
        ("large", 64, 7, 16),
        ("auto", 63, 3, 63),
        ("auto", 64, 7, 16),
        ("auto", 8, 3, 8),
    ],
)
def test_the_stem_suits_the_image(channels: int, stem: str, side: int, kernel: int, features: int):
    module = ResNet(stem=stem).build(Sample("image", (channels, side, side), 7))
    assert tuple(module.conv1.weight.shape) == (64, channels, kernel, kernel)
    seen = []
    module.layer1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
    with torch.no_grad():
        assert module(torch.randn(2, channels, side, side)).shape == (2, 7)
    assert seen == [features]


def test_auto_looks_at_the_shorter_side():
    assert ResNet().build(Sample("image", (3, 32, 256), 10)).conv1.kernel_size == (3, 3)


def test_a_large_stem_for_three_channels_is_torchvisions_own_network():
    torch.manual_seed(0)
    ours = ResNet(stem="large").build(Sample("image", (3, 64, 64), 10)).state_dict()
    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(num_classes=10).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_any_residual_network_of_torchvision_can_be_named():
    module = ResNet(variant="resnext50_32x4d").build(Sample("image", (1, 8, 8), 3))
    assert module.layer1[0].conv2.groups == 32
    assert module.fc.out_features == 3


def test_parameters_keep_torchvisions_names():
    names = dict(ResNet().build(Sample("image", (1, 8, 8), 10)).named_parameters())
    assert len(names) == 62
    assert {"conv1.weight", "layer1.0.conv1.weight", "layer4.1.bn2.bias", "fc.bias"} <= set(names)


def test_the_same_seed_gives_the_same_weights(build_twice):
    first, second, other = build_twice(ResNet(), Sample("image", (1, 8, 8), 10))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])


@pytest.mark.parametrize(
    ("variant", "hint"),
    [
        ("resnet17", "did you mean 'resnet"),
        ("vgg16", "choose from: resnet101, resnet152, resnet18, resnet34, resnet50, resnext101_32x8d, "),
    ],
)
def test_an_unknown_variant_is_refused(make_run, variant: str, hint: str):
    with pytest.raises(ConfigError) as caught:
        make_run("model=resnet", f"model.variant={variant}")
    assert str(caught.value).startswith(f"model.variant: torchvision has no residual network '{variant}'; {hint}")


def test_tokens_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=resnet", "data=text", "data.length=16")
    assert str(caught.value) == (
        "model: ResNet reads image samples, but data gives tokens of shape (16,); choose another model or data"
    )
