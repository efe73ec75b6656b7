"""A decoder-only language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

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


class GPT(Model):
    """Tokens to the next token's logits, with causal attention (Radford et al. 2019)."""

    depth: Size = 4
    """the number of blocks"""
    width: Size = 128
    """the size of a token's vector; divides by heads"""
    heads: Size = 4
    """the number of attention heads"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """the share of activations dropped in training"""

    def accepts(self) -> tuple[Literal["image", "tokens"], ...]:
        return ("tokens",)

    def check(self, run: Run) -> None:
        super().check(run)
        if self.width % self.heads:
            raise ConfigError(f"model.heads: width {self.width} does not divide by {self.heads} heads; use a divisor")

    def build(self, sample: Sample) -> nn.Module:
        return _GPT(self, sample)


class _GPT(nn.Module):
    def __init__(self, spec: GPT, sample: Sample) -> None:
        super().__init__()
        self.token = nn.Embedding(sample.classes, spec.width)
        self.position = positions(sample.shape[0], spec.width)
        self.layers = blocks(spec.depth, spec.width, spec.heads, causal=True, dropout=spec.dropout)
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width, sample.classes, bias=False)
        initialise(self, spec.depth)
        self.tensor_plan = TensorPlan(
            REGIONS, embeddings=("token",), head="head", sequence=("layers.0", "norm"), heads=spec.heads
        )

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position[: tokens.shape[1]]
        for layer in self.layers.values():
            x = layer(x)
        return self.head(self.norm(x))
