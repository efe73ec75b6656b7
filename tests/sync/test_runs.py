"""Sync rules as a user runs them: they resume bitwise, and a failing rank ends them all."""

from __future__ import annotations

import pytest

from tests.processes import SMALL, alive_in_session, losses, run, started

# Several buckets or chunks a step.
DEEP = (*SMALL, "model.depth=4", "parallel.data.bucket_cap_mb=0.3", "log.every=1", "evaluate.every=null")
MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.late, self.out = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.calls = 0

    def forward(self, x):
        self.calls += self.training
        return self.out(self.middle(self.first(x.flatten(1)).relu()))


class Changing(Net):
    def middle(self, x):
        return self.late(x) if self.calls < 4 else x @ self.late.weight + self.late.bias


class Idle(Net):
    def middle(self, x):
        return self.late(x) if self.calls < 4 else x


class Failing(Net):
    def middle(self, x):
        if self.calls == 5 and torch.distributed.get_rank() == 1:
            raise ArithmeticError("as the test wants it")
        return self.late(x)
"""


@pytest.mark.parametrize(
    "rule",
    [
        ("sync=next_forward", "sync.chunk_mb=0.1"),
        ("sync=partitioned", "clip.max_norm=0.5", "clip.mode=previous_norm"),
        ("sync=delayed", "sync.steps=2", "sync.warmup_steps=3"),
        ("sync=next_forward", "sync.chunk_mb=0.1", "comm=topk", "comm.ratio=0.05"),
        ("sync=local_sgd", "sync.period=3", "sync.warmup_steps=2"),
        # The checkpoint is between a fragment's departure and its arrival.
        ("sync=diloco", "sync.period=6", "sync.warmup_steps=2", "sync.fragments=3", "sync.delay=1", "sync.alpha=0.5"),
        ("sync=diloco", "sync.period=3", "comm=topk", "comm.ratio=0.05", "optimizer=adamw"),
    ],
    ids=lambda rule: " ".join(rule),
)
def test_a_resumed_run_has_bitwise_the_losses_of_an_undisturbed_one(tmp_path, rule):
    arguments = (*DEEP, *rule, "steps=16", "checkpoint.every=8")
    code, output = run(tmp_path, *arguments, "folder=whole")
    assert code == 0, output
    code, output = run(tmp_path, *arguments, "folder=rest", "checkpoint.resume=whole/checkpoints/step_00000008")
    assert code == 0, output
    whole, rest = losses(tmp_path / "whole"), losses(tmp_path / "rest")
    assert rest == {step: whole[step] for step in range(9, 17)}


def test_a_checkpoint_moves_between_exact_rules(tmp_path):
    arguments = (*DEEP, "steps=16", "checkpoint.every=8")
    code, output = run(tmp_path, *arguments, "folder=strict")
    assert code == 0, output
    for rule in ("partitioned", "next_forward"):
        resume = "checkpoint.resume=strict/checkpoints/step_00000008"
        code, output = run(tmp_path, *arguments, f"sync={rule}", f"folder={rule}", resume)
        assert code == 0, output
        whole, rest = losses(tmp_path / "strict"), losses(tmp_path / rule)
        assert rest == {step: whole[step] for step in range(9, 17)}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("Changing", "sync: late.bias was read outside the forward pass of its own module, and was not so in the"),
        ("Idle", "sync: late.weight, late.bias got no gradient in this step, and its chunk waits for it; use sync="),
        ("Failing", "ArithmeticError: as the test wants it"),
    ],
)
def test_a_run_that_cannot_go_on_ends_with_the_reason_and_leaves_no_process(tmp_path, monkeypatch, model, words):
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rule = ("sync=next_forward", "sync.chunk_mb=0.001", "model=custom", f"model.factory=net:{model}")
    with started(tmp_path, *SMALL, *rule) as process:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 1, output
        assert words in output, output
        assert not alive_in_session(process.pid)
