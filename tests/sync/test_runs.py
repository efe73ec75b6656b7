"""Sync rules as a user runs them: they resume bitwise, and a failing rank ends them all."""

from __future__ import annotations

import pytest
import torch

from tests.pipeline import scenario
from tests.processes import SMALL, alive_in_session, losses, run, started
from trainer import checkpoint_folder

# Several buckets or chunks a step.
DEEP = (*SMALL, "model.depth=4", "parallel.data.bucket_cap_mb=0.3", "log.every=1", "evaluate.every=null")
# The same on processes under test.
IN_TESTS = (
    *scenario.SMALL,
    *("launch.processes=2", "model=mlp", "model.width=256", "model.depth=4", "parallel.data.bucket_cap_mb=0.3"),
    *("+data.kwargs.dtype=float32", "steps=16", "checkpoint.every=8"),
)
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


# What a checkpoint between two steps may hold of each rule's own.
RULES = [
    ("sync=next_forward", "sync.chunk_mb=0.1"),
    ("sync=partitioned", "clip.max_norm=0.5", "clip.mode=previous_norm"),
    ("sync=delayed", "sync.steps=2", "sync.warmup_steps=3"),
    ("sync=next_forward", "sync.chunk_mb=0.1", "comm=topk", "comm.ratio=0.05"),
    ("sync=local_sgd", "sync.period=3", "sync.warmup_steps=2"),
    # The checkpoint is between a fragment's departure and its arrival.
    ("sync=diloco", "sync.period=6", "sync.warmup_steps=2", "sync.fragments=3", "sync.delay=1", "sync.alpha=0.5"),
    ("sync=diloco", "sync.period=3", "comm=topk", "comm.ratio=0.05", "optimizer=adamw"),
]
EXACT = ("sync=partitioned", "sync=next_forward")
STRICT = ("sync=strict",)


@pytest.fixture(scope="module")
def train(workers, compose_run, tmp_path_factory):
    """`train({rule: resume})` gives by rule the losses of a whole run, or of what follows a checkpoint, and its folder.

    All of them in one launch of two processes, one after another.
    """

    def train(rules):
        folder = tmp_path_factory.mktemp("runs")
        runs = [
            compose_run(
                folder / str(number), *IN_TESTS, *rule, *([] if resume is None else [f"checkpoint.resume={resume}"])
            )
            for number, (rule, resume) in enumerate(rules.items())
        ]
        ranks = workers(2, scenario.train, runs, torch.float32)
        losses = [[rank[number].losses for rank in ranks] for number in range(len(runs))]
        return {
            rule: (seen, checkpoint_folder.path_of(run.checkpoints, 8))
            for rule, run, seen in zip(rules, runs, losses, strict=True)
        }

    return train


@pytest.fixture(scope="module")
def whole(train):
    return train(dict.fromkeys([*RULES, STRICT]))


@pytest.fixture(scope="module")
def rest(train, whole):
    """What follows each rule's checkpoint, and that of strict training under other rules."""
    own = train({rule: path for rule, (_, path) in whole.items()})
    return own | train({(rule,): whole[STRICT][1] for rule in EXACT})


@pytest.mark.parametrize("rule", RULES, ids=" ".join)
def test_a_resumed_run_has_bitwise_the_losses_of_an_undisturbed_one(whole, rest, rule):
    for undisturbed, resumed in zip(whole[rule][0], rest[rule][0], strict=True):
        assert len(undisturbed) == 16
        assert resumed == undisturbed[8:]


@pytest.mark.parametrize("rule", EXACT)
def test_a_checkpoint_moves_between_exact_rules(whole, rest, rule):
    assert [losses[8:] for losses in whole[STRICT][0]] == rest[(rule,)][0]


def test_so_it_is_when_a_user_resumes(tmp_path):
    arguments = (*DEEP, *RULES[5], "steps=16", "checkpoint.every=8")
    code, output = run(tmp_path, *arguments, "folder=whole")
    assert code == 0, output
    code, output = run(tmp_path, *arguments, "folder=rest", "checkpoint.resume=whole/checkpoints/step_00000008")
    assert code == 0, output
    undisturbed, resumed = losses(tmp_path / "whole"), losses(tmp_path / "rest")
    assert resumed == {step: undisturbed[step] for step in range(9, 17)}


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
