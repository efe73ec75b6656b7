"""Paced compute: exact sizes, kept times, gradients of the real size, and tables that say what is wrong with them."""

from __future__ import annotations

import time

import pytest
import torch

from trainer.model.replay import Replay
from trainer.replay_table import Row, read, write
from trainer.sample import Sample
from trainer.spec import ConfigError

IMAGE = Sample("image", (3, 8, 8), 10)
HEADER = "layer,parameters,forward_ms,backward_ms,activation_bytes\n"


@pytest.mark.parametrize(
    ("table", "parameters"), [("resnet50", 25_557_032), ("bert_base", 109_482_240), ("gpt2_medium", 354_823_168)]
)
def test_shipped_tables_have_exactly_the_models_parameters(table, parameters):
    assert sum(row.numel for row in Replay(table=table).rows()) == parameters


def test_a_step_takes_the_tables_time_and_leaves_gradients_of_the_tables_sizes(tmp_path):
    path = tmp_path / "table.csv"
    write(path, [Row(f"layer{i}", ((8, 4), (8,)), 5.0, 10.0, 0) for i in range(6)], ["made up"])
    net = Replay(table=str(path), time_scale=0.5).build(IMAGE)
    began = time.perf_counter()
    output = net(torch.zeros(2, *IMAGE.shape))
    forward = time.perf_counter() - began
    Replay().loss(output, torch.zeros(2, dtype=torch.long)).backward()
    whole = time.perf_counter() - began
    # Sleeping is never too short; how much too long depends on the machine.
    assert forward >= 6 * 0.0025
    assert whole - forward >= 6 * 0.005
    assert output.shape == (2, 10)
    assert [tuple(p.grad.shape) for p in net.parameters()] == [(8, 4), (8,)] * 6
    assert all(p.grad.abs().sum() > 0 for p in net.parameters())


def test_gradients_are_the_same_in_every_step():
    net = Replay(table="resnet50", time_scale=1e-6).build(IMAGE)
    taken = []
    for _ in range(2):
        net.zero_grad()
        net(torch.zeros(1, *IMAGE.shape)).sum().backward()
        taken.append(next(net.parameters()).grad)
    assert torch.equal(*taken)
    assert taken[0] is not taken[1]


def test_tokens_give_an_output_for_each(make_run):
    assert Replay(table="resnet50", time_scale=1e-6).build(Sample("tokens", (5,), 7))(
        torch.zeros(2, 5, dtype=torch.long)
    ).shape == (2, 5, 7)


def test_what_is_written_is_read_again(tmp_path):
    rows = [Row("a", ((2, 3), (2,)), 1.5, 3.25, 48), Row("relu", (), 0.0, 0.0, 48)]
    write(tmp_path / "table.csv", rows, ["one line", "another"])
    assert read(tmp_path / "table.csv", "model.table") == rows


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("a,2x3,1,2", "line 2: 4 columns instead of 5; write layer,parameters,forward_ms,backward_ms,activation_bytes"),
        ("a,2y3,1,2,3", "line 2, column parameters: '2y3' is no list of shapes; write for example 64x3x7x7+64"),
        ("a,2x0,1,2,3", "line 2, column parameters: '2x0' is no list of shapes; write for example 64x3x7x7+64"),
        ("a,2,fast,2,3", "line 2, column forward_ms: 'fast' is no number of at least 0; correct it"),
        ("a,2,1,-2,3", "line 2, column backward_ms: '-2' is no number of at least 0; correct it"),
        ("a,2,1,inf,3", "line 2, column backward_ms: 'inf' is no number of at least 0; correct it"),
        ("a,2,1,2,0.5", "line 2, column activation_bytes: '0.5' is no number of at least 0; correct it"),
    ],
)
def test_a_malformed_line_is_named_with_its_column(tmp_path, line, complaint, make_run):
    path = tmp_path / "table.csv"
    path.write_text(HEADER + line + "\n")
    with pytest.raises(ConfigError) as caught:
        make_run("model=replay", f"model.table={path}")
    assert str(caught.value) == f"model.table: {path}, {complaint}"


def test_a_table_without_its_columns_or_layers_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n")
    with pytest.raises(ConfigError) as caught:
        Replay(table=str(path)).rows()
    assert str(caught.value) == (
        f"model.table: {path} does not start with the columns layer,parameters,forward_ms,backward_ms,activation_bytes;"
        " add that line"
    )
    path.write_text("# nothing\n" + HEADER)
    with pytest.raises(ConfigError, match="has no layers; add a line for each"):
        Replay(table=str(path)).rows()


def test_an_unknown_table_is_answered_with_those_there_are():
    with pytest.raises(ConfigError) as caught:
        Replay(table="resnet5").rows()
    assert str(caught.value) == (
        "model.table: there is no table 'resnet5'; choose from: bert_base, eight_layers, gpt2_medium, hundred_mb,"
        " resnet50, or give a path"
    )
