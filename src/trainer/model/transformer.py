"""The transformer block that vit and gpt share.

Queries, keys and values have a projection each, and layers live in a ModuleDict under their own numbers, so that a
model can be cut across heads or between layers while every parameter keeps its name.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from trainer.tensor_plan import Region


class Attention(nn.Module):
    """Multi-head self-attention over (batch, length, width)."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float) -> None:
        super().__init__()
        self.head_width, self.causal, self.dropout = width // heads, causal, dropout
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        # The number of heads follows from the projection, which may hold only some of them.
        q, k, v = (part(x).unflatten(-1, (-1, self.head_width)).transpose(1, 2) for part in self._projections())
        rate = self.dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _projections(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.query, self.key, self.value


class FeedForward(nn.Module):
    """Two linears with a GELU between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    """Pre-norm attention and feed-forward, each added to its input (Xiong et al. 2020)."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal, dropout)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, 4 * width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


# How a block is shared out between tensor ranks: heads, and hidden units.
REGIONS = (
    Region("layers.*.attention", ("query", "key", "value"), ("out",)),
    Region("layers.*.feed_forward", ("up",), ("down",)),
)


def blocks(depth: int, width: int, heads: int, causal: bool, dropout: float) -> nn.ModuleDict:
    """`depth` blocks under the keys "0" … str(depth - 1)."""
    return nn.ModuleDict({str(layer): Block(width, heads, causal, dropout) for layer in range(depth)})


def initialise(module: nn.Module, depth: int) -> None:
    """GPT-2's initialisation (Radford et al. 2019): normal(0, 0.02), residual outputs scaled by 1/sqrt(2 depth)."""
    for name, part in module.named_modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            residual = name.endswith(("attention.out", "feed_forward.down"))
            nn.init.normal_(part.weight, std=0.02 / (2 * depth) ** 0.5 if residual else 0.02)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)


def positions(length: int, width: int) -> nn.Parameter:
    """A learned embedding of `length` positions, (length, width)."""
    return nn.Parameter(torch.randn(length, width) * 0.02)
