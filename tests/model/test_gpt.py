"""The language model predicts each token from those before it."""

from __future__ import annotations

import pytest
import torch

from trainer.model.gpt import GPT
from trainer.sample import Sample
from trainer.spec import ConfigError

TOKENS = Sample("tokens", (12,), 30)
SMALL = GPT(depth=2, width=16, heads=2)


def test_a_batch_of_tokens_becomes_logits_for_every_position():
    assert SMALL.build(TOKENS)(torch.randint(30, (4, 12))).shape == (4, 12, 30)


def test_a_shorter_sequence_is_read_as_well():
    module, tokens = SMALL.build(TOKENS), torch.randint(30, (2, 12))
    torch.testing.assert_close(module(tokens[:, :5]), module(tokens)[:, :5])


def test_a_later_token_does_not_change_earlier_logits():
    module, tokens = SMALL.build(TOKENS), torch.randint(30, (1, 12))
    changed = tokens.clone()
    changed[0, 7] = (tokens[0, 7] + 1) % 30
    before, after = module(tokens), module(changed)
    torch.testing.assert_close(after[:, :7], before[:, :7])
    assert (after - before).abs().amax(dim=-1)[0, 7:].gt(1e-5).all()


def test_equal_tokens_are_told_apart_by_their_position():
    logits = SMALL.build(TOKENS)(torch.zeros(1, 12, dtype=torch.long))
    assert not torch.allclose(logits[0, 1], logits[0, 2], atol=1e-5)


def test_an_untrained_model_is_about_as_good_as_guessing():
    torch.manual_seed(0)
    tokens = torch.randint(30, (8, 12))
    loss = SMALL.loss(SMALL.build(TOKENS)(tokens), tokens)
    assert loss.item() == pytest.approx(torch.tensor(30.0).log().item(), abs=0.1)


def test_parameters_are_named_by_layer_and_part():
    names = [name for name, _ in GPT(depth=11, width=4, heads=1).build(TOKENS).named_parameters()]
    assert names[:3] == ["position", "token.weight", "layers.0.attention_norm.weight"]
    assert {"layers.0.attention.query.weight", "layers.10.feed_forward.down.bias"} <= set(names)
    assert names[-3:] == ["norm.weight", "norm.bias", "head.weight"]


def test_the_same_seed_gives_the_same_weights(build_twice):
    first, second, other = build_twice(SMALL, TOKENS)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["token.weight"], other["token.weight"])


def test_dropout_acts_in_training_only():
    module, tokens = GPT(depth=1, width=16, heads=2, dropout=0.5).build(TOKENS), torch.randint(30, (1, 12))
    assert not torch.equal(module(tokens), module(tokens))
    module.eval()
    assert torch.equal(module(tokens), module(tokens))


def test_heads_that_do_not_divide_the_width_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=gpt", "data=text", "model.heads=5")
    assert str(caught.value) == "model.heads: width 128 does not divide by 5 heads; use a divisor"


def test_images_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("model=gpt")
    assert str(caught.value) == (
        "model: GPT reads tokens samples, but data gives image of shape (1, 8, 8); choose another model or data"
    )
