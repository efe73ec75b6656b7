"""Any residual network of torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torchvision
from torch import nn

from trainer.model.base import Model
from trainer.sample import Sample
from trainer.spec import ConfigError, did_you_mean

if TYPE_CHECKING:
    from trainer.run import Run

SMALL_IMAGE = 64


class ResNet(Model):
    """torchvision's implementation, with a stem that suits the image."""

    variant: str = "resnet18"
    """the name of a torchvision residual network, such as resnet50 or wide_resnet50_2"""
    stem: Literal["auto", "small", "large"] = "auto"
    """the first layers: large (7x7, stride 2, pooling), small (3x3, no pooling), or auto by image size"""

    def check(self, run: Run) -> None:
        super().check(run)
        builders = {name: torchvision.models.get_model_builder(name) for name in torchvision.models.list_models()}
        names = [name for name, builder in builders.items() if builder.__module__ == "torchvision.models.resnet"]
        if self.variant not in names:
            raise ConfigError(
                f"model.variant: torchvision has no residual network '{self.variant}'"
                f"{did_you_mean(self.variant, names)}"
            )

    def build(self, sample: Sample) -> nn.Module:
        channels, height, width = sample.shape
        net = torchvision.models.get_model(self.variant, weights=None, num_classes=sample.classes)
        small = min(height, width) < SMALL_IMAGE if self.stem == "auto" else self.stem == "small"
        width = net.conv1.out_channels
        if small:
            # The usual stem for small images (He et al. 2016, section 4.2): two halvings would leave nothing to see.
            net.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            net.maxpool = nn.Identity()
        elif channels != 3:
            net.conv1 = nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
        if small or channels != 3:
            nn.init.kaiming_normal_(net.conv1.weight, mode="fan_out", nonlinearity="relu")
        return net
