"""The transformer block, against formulas written out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from trainer.model.transformer import Attention, blocks, initialise, positions


def attention_by_hand(part: Attention, x: torch.Tensor, heads: int, causal: bool) -> torch.Tensor:
    """Softmax(q k^T / sqrt(d)) v, one head after the other."""
    outputs = []
    for q, k, v in zip(*(p(x).chunk(heads, dim=-1) for p in (part.query, part.key, part.value)), strict=True):
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
        outputs.append(scores.softmax(dim=-1) @ v)
    return part.out(torch.cat(outputs, dim=-1))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_the_formula(causal: bool):
    attention, x = Attention(12, 3, causal, dropout=0.0).double(), torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(attention(x), attention_by_hand(attention, x, 3, causal))


def test_heads_can_be_computed_apart_and_added():
    whole, x = Attention(12, 3, True, dropout=0.0).double(), torch.randn(2, 5, 12, dtype=torch.float64)
    total = torch.zeros_like(x)
    for rows in (slice(0, 4), slice(4, 12)):
        part = Attention(12, 3, True, dropout=0.0).double()
        for name in ("query", "key", "value"):
            mine, theirs = getattr(part, name), getattr(whole, name)
            mine.weight, mine.bias = (torch.nn.Parameter(p[rows]) for p in (theirs.weight, theirs.bias))
        part.out.weight = torch.nn.Parameter(whole.out.weight[:, rows])
        part.out.bias = None
        total += part(x)
    torch.testing.assert_close(total + whole.out.bias, whole(x))


def test_a_block_adds_to_its_input():
    block, x = blocks(1, 8, 2, causal=False, dropout=0.0)["0"], torch.randn(2, 5, 8)
    for part in (block.attention.out, block.feed_forward.down):
        torch.nn.init.zeros_(part.weight)
        torch.nn.init.zeros_(part.bias)
    assert torch.equal(block(x), x)


def test_layers_keep_their_numbers_when_some_are_taken_away():
    layers = blocks(4, 8, 2, causal=False, dropout=0.0)
    del layers["0"], layers["1"]
    assert {name.split(".")[0] for name, _ in layers.named_parameters()} == {"2", "3"}


def test_residual_outputs_start_smaller_with_depth():
    depth = 8
    layers = blocks(depth, 64, 2, causal=False, dropout=0.0)
    initialise(layers, depth)
    block = layers["3"]
    for part, std in (
        (block.attention.query, 0.02),
        (block.feed_forward.up, 0.02),
        (block.attention.out, 0.02 / math.sqrt(2 * depth)),
        (block.feed_forward.down, 0.02 / math.sqrt(2 * depth)),
    ):
        assert part.weight.std().item() == pytest.approx(std, rel=0.1)
        assert part.bias.abs().max() == 0


def test_positions_are_learned():
    embedding = positions(7, 5)
    assert embedding.shape == (7, 5)
    assert embedding.requires_grad
