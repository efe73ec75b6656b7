"""tune=advise, as it is typed."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.processes import SMALL, alive_in_session, only_run, read_until, run, started
from trainer.config import read
from trainer.preset.compose import composed
from trainer.spec import ConfigError
from trainer.tune import space


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["launch.processes=1"], "tune: there is one replica, which sends no gradients; start several processes"),
        (["parallel=pipeline"], "tune: only steps of parallel=ddp are predicted; use it, or tune=none"),
        (["parallel=fsdp"], "tune: only steps of parallel=ddp are predicted; use it, or tune=none"),
        (["batch.microbatches=2"], "tune: a step of 2 micro-batches is not predicted; use batch.microbatches=1"),
        (["sync=delayed"], "tune: what is measured to begin with has no stale updates; use sync=strict, and "),
        (["sync=local_sgd"], "tune: what is measured to begin with has no stale updates; use sync=strict, and "),
        (["comm=topk", "comm.warmup_steps=5"], "comm.warmup_steps: the first 5 steps are dense, and only such would "),
        (
            ["parallel.data.bucket_cap_mb=auto"],
            "parallel.data.bucket_cap_mb: auto chooses by itself; give a number, or null, to compare",
        ),
        (["compile=true"], "compile: layers are timed one by one, which a compiled model has not; use compile=false"),
        (["tune.steps=5"], "tune.steps: 5 "),
        (["tune.allow=all"], "tune.allow: 'all' "),
    ],
)
def test_what_is_not_predicted_is_refused(make_run, options, said):
    with pytest.raises(ConfigError) as caught:
        make_run("tune=advise", *options)
    assert str(caught.value).startswith(said)


def test_the_space_keeps_the_result_unless_it_may_change(make_run):
    exact = make_run("tune=advise")
    choices = list(space.choices(exact, "exact", space.hooks(exact, "exact")))
    assert {choice.comm for choice in choices} == {"allreduce"}
    assert {choice.sync for choice in choices} == {"strict", "partitioned", "next_forward"}
    lossy = space.hooks(exact, "lossy")
    assert {choice.comm for choice in space.choices(exact, "lossy", lossy)} == set(lossy)
    stale = {choice.sync for choice in space.choices(exact, "stale", lossy)}
    assert stale == {"strict", "partitioned", "next_forward", "delayed", "local_sgd"}
    # What the compatibility table refuses is no choice: norms need the whole gradient.
    clipped = make_run("tune=advise", "clip.max_norm=1")
    assert {choice.sync for choice in space.choices(clipped, "exact", space.hooks(clipped, "exact"))} == {"strict"}


def test_the_runs_own_hook_keeps_its_options(make_run):
    own = make_run("tune=advise", "comm=topk", "comm.ratio=0.1")
    assert space.hooks(own, "exact")["topk"] is own.comm
    assert space.present(own).comm == "topk"


def test_it_ends_with_advice_and_trains_nothing(tmp_path):
    code, output = run(tmp_path, *SMALL, "tune=advise", "tune.steps=10", "comm=topk")
    assert code == 0, output
    assert "Predicted steps, 2 replicas on 1 host" in output
    assert "the model is " in output
    folder = only_run(tmp_path)
    profile = json.loads((folder / "profile.json").read_text())
    assert profile["ranks"] == 2
    assert set(profile["curves"]) == {"allreduce", "topk"}
    # Two ranks each send half of a bucket twice; the largest hundredth is sent with its indices.
    assert all(sent == size for size, *_, sent in profile["curves"]["allreduce"])
    assert all(0.01 < sent / size < 0.02 for size, *_, sent in profile["curves"]["topk"])
    assert not (folder / "metrics.jsonl").exists()
    assert not (folder / "checkpoints").exists()


def test_a_sweep_of_it_is_refused(tmp_path):
    cfg = composed(["tune=advise"]).config
    with pytest.raises(ConfigError, match=r"^tune: a sweep ranks runs that train; leave out -m, or use tune=none$"):
        read(cfg, tmp_path / "0")


def test_it_can_be_stopped(tmp_path):
    with started(tmp_path, *SMALL, "tune=advise", "tune.steps=1000") as process:
        # Of the steps with communication none is done yet.
        read_until(process, lambda line: "profile.record_replay: wrote" in line)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130, output
        assert "tune: stopped by SIGINT; nothing was chosen" in output
        assert not alive_in_session(process.pid)
