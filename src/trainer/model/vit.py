"""A vision transformer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from torch import Tensor, nn

from trainer.model.base import Model
from trainer.model.transformer import REGIONS, blocks, initialise, positions
from trainer.sample import Sample
from trainer.spec import ConfigError
from trainer.tensor_plan import TensorPlan

if TYPE_CHECKING:
    from trainer.run import Run

Size = Annotated[int, Field(ge=1)]


class ViT(Model):
    """Patches to tokens to the mean token to classes (Dosovitskiy et al. 2021, with mean pooling)."""

    patch: Size = 2
    """the side of a square patch in pixels; divides the image's sides"""
    depth: Size = 6
    """the number of blocks"""
    width: Size = 128
    """the size of a token's vector; divides by heads"""
    heads: Size = 4
    """the number of attention heads"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """the share of activations dropped in training"""

    def check(self, run: Run) -> None:
        super().check(run)
        _, height, width = run.data.sample().shape
        if height % self.patch or width % self.patch:
            raise ConfigError(
                f"model.patch: patches of {self.patch} do not tile images of {height}x{width}; use a common divisor"
            )
        if self.width % self.heads:
            raise ConfigError(f"model.heads: width {self.width} does not divide by {self.heads} heads; use a divisor")

    def build(self, sample: Sample) -> nn.Module:
        return _ViT(self, sample)


class _ViT(nn.Module):
    def __init__(self, spec: ViT, sample: Sample) -> None:
        super().__init__()
        channels, height, width = sample.shape
        self.patches = nn.Conv2d(channels, spec.width, spec.patch, stride=spec.patch)
        self.position = positions((height // spec.patch) * (width // spec.patch), spec.width)
        self.layers = blocks(spec.depth, spec.width, spec.heads, causal=False, dropout=spec.dropout)
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width, sample.classes)
        initialise(self, spec.depth)
        self.tensor_plan = TensorPlan(REGIONS, sequence=("layers.0", "norm"), heads=spec.heads)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers.values():
            x = layer(x)
        return self.head(self.norm(x).mean(dim=1))
