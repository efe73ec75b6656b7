"""tune=search: what is tried, what must learn, and what is kept."""

from __future__ import annotations

import pytest

from tests.processes import SMALL, only_run, run
from tests.tune.made_up import line, profile
from trainer.comm.allreduce import AllReduce
from trainer.launch import WorkerFailed
from trainer.preset.compose import composed
from trainer.spec import ConfigError
from trainer.tune import space
from trainer.tune.advise import Advise
from trainer.tune.learning import share_learned
from trainer.tune.program import Choice
from trainer.tune.searching import NAME, search
from trainer.tune.trial import Seen, Trial

FALLING = [2.0, 1.6, 1.2, 1.0]
# A link on which a hook that sends little is far ahead.
CURVES = {
    "allreduce": line(0.001, 20),
    "fp16": line(0.001, 40),
    "bf16": line(0.001, 40),
    "int8": line(0.001, 80),
    "onebit": line(0.001, 400),
    "topk": line(0.001, 1000),
}


class Launcher:
    """In place of processes: each trial takes and learns what is said of its hook."""

    def __init__(self, seconds, losses=None, failing=()):
        self.seconds = seconds
        self.failing = failing
        self.losses = losses or {}
        self.started = []

    def __call__(self, run):
        if isinstance(run.tune, Advise):
            return profile(**CURVES)
        assert isinstance(run.tune, Trial)
        assert (run.logger, run.checkpoint.every, run.evaluate.every) == ({}, None, None)
        name = run.comm.choice() if run.sync.choice() != "local_sgd" else "local_sgd"
        self.started.append((name, run.tune.count))
        if name in self.failing:
            raise WorkerFailed("train/loss: nan at step 5")
        step_s = self.seconds[name] if isinstance(self.seconds[name], float) else self.seconds[name].pop(0)
        return Seen([step_s] * run.tune.count, self.losses.get(name, FALLING))


def searched(make_run, launcher, *options):
    job = make_run("tune=search", "model=mlp", "launch.processes=2", *options)
    job.folder.mkdir()
    search(job, job.tune, launcher)
    return job.folder / "experiment" / f"{NAME}.yaml"


LOSSY = ("tune.allow=lossy", "tune.candidates=2", "tune.rounds=2", "tune.trial=4", "tune.budget=20")


def test_the_best_predicted_are_tried_in_turn_and_the_fastest_that_learns_is_kept(make_run, capsys):
    launcher = Launcher({"allreduce": 1.0, "topk": 0.1, "onebit": 0.2})
    path = searched(make_run, launcher, *LOSSY)
    rounds = launcher.started[:6]
    assert rounds[:3] == rounds[3:]
    assert rounds[0] == ("allreduce", 4)
    assert {name for name, _ in rounds[1:3]} <= {"topk", "onebit"}
    # The exact run is the measure of learning, and it is made once.
    assert launcher.started[6:] == [("allreduce", 20), ("topk", 20)]
    text = path.read_text()
    assert "override /comm: topk" in text
    assert "100 ms a step" in text.replace("\n#  ", "")
    said = capsys.readouterr().out
    assert "1000 ms before, 10.00 times as much" in said
    assert f"preset: {path}; use it by TRAINER_PRESETS={path.parent.parent} python train.py experiment=tuned" in said


def test_a_hook_that_does_not_learn_is_passed_over(make_run, capsys):
    seconds = {"allreduce": 1.0, "fp16": 0.5, "bf16": 0.5, "int8": 0.3, "topk": 0.1, "onebit": 0.2}
    launcher = Launcher(seconds, {"topk": [2.0, 1.9, 1.9, 1.9]})
    path = searched(make_run, launcher, *LOSSY, "tune.candidates=40")
    assert "override /comm: onebit" in path.read_text()
    assert "11%" in capsys.readouterr().out


def test_where_the_exact_run_learns_nothing_no_hook_can_be_judged(make_run, capsys):
    flat = {name: [2.0, 2.0, 2.0, 2.0] for name in ("allreduce", "topk", "onebit")}
    launcher = Launcher({"allreduce": 1.0, "topk": 0.1, "onebit": 0.2}, flat)
    path = searched(make_run, launcher, *LOSSY)
    assert not path.exists()
    assert "the loss did not fall in 20 steps" in capsys.readouterr().out


def test_one_that_was_slower_in_any_round_is_not_kept(make_run, capsys):
    launcher = Launcher({"allreduce": 1.0, "topk": [0.1] * 2 + [1.1] * 2, "onebit": [0.1, 1.1]})
    path = searched(make_run, launcher, *LOSSY)
    assert not path.exists()
    assert "Nothing that may be chosen was faster in all of 2 rounds: keep the present settings." in (
        capsys.readouterr().out
    )


def test_what_fails_is_told_and_does_not_end_the_search(make_run, capsys):
    seconds = {"allreduce": 1.0, "fp16": 0.5, "bf16": 0.5, "int8": 0.3, "onebit": 0.2}
    launcher = Launcher(seconds, failing=("topk",))
    path = searched(make_run, launcher, *LOSSY, "tune.candidates=40")
    assert "override /comm: onebit" in path.read_text()
    assert "comm=topk: train/loss: nan at step 5" in capsys.readouterr().out


def test_no_winner_is_made_of_noise(make_run, capsys):
    launcher = Launcher({"allreduce": 1.0, "topk": 0.98, "onebit": 0.99})
    assert not searched(make_run, launcher, *LOSSY).exists()


def test_a_round_of_local_steps_is_timed_whole(make_run):
    seconds = {"allreduce": 1.0, "fp16": 1.0, "bf16": 1.0, "int8": 1.0, "topk": 1.0, "onebit": 1.0, "local_sgd": 0.5}
    launcher = Launcher(seconds)
    searched(make_run, launcher, *LOSSY, "tune.allow=stale", "tune.candidates=80", "tune.rounds=1")
    assert ("local_sgd", 8) in launcher.started
    assert ("local_sgd", 4) not in launcher.started


def test_the_preset_makes_the_run_again(make_run, monkeypatch):
    path = searched(make_run, Launcher({"allreduce": 1.0, "topk": 0.1, "onebit": 0.2}), *LOSSY, "batch.size=32")
    monkeypatch.setenv("TRAINER_PRESETS", str(path.parent.parent))
    tree = composed([f"experiment={NAME}"]).tree()
    assert tree["comm"]["_target_"] == "trainer.comm.topk.TopK"
    assert tree["batch"]["size"] == 32
    assert tree["tune"]["_target_"] == "trainer.tune.base.Tune"


def test_settings_are_put_into_a_run(make_run):
    job = make_run("tune=search", "tune.allow=lossy")
    allowed = space.hooks(job, "lossy")
    assert space.under(job, space.present(job), allowed) is job
    bucketed = space.under(job, Choice("fp16", "strict", 5.0), allowed)
    assert (bucketed.comm.choice(), bucketed.sync.choice(), bucketed.parallel.data.bucket_cap_mb) == (
        "fp16",
        "strict",
        5.0,
    )
    late = space.under(job, Choice("allreduce", "delayed", 5.0), allowed)
    assert (late.sync.choice(), late.sync.warmup_steps, late.parallel.data.bucket_cap_mb) == ("delayed", 0, 5.0)
    lazy = space.under(job, Choice("allreduce", "next_forward"), allowed)
    assert (lazy.comm.choice(), lazy.sync.choice()) == ("allreduce", "next_forward")


def test_what_changes_the_result_has_to_learn(make_run):
    job = make_run("tune=search", "comm=fp16")
    assert space.is_alike(Choice("allreduce", "partitioned"), job)
    # Its own hook's loss is the user's choice already.
    assert space.is_alike(Choice("fp16", "next_forward"), job)
    assert not space.is_alike(Choice("topk", "strict"), job)
    assert not space.is_alike(Choice("allreduce", "delayed"), job)


def test_lossy_settings_are_compared_with_the_exact_average(make_run):
    lossy = make_run("tune=search", "comm=topk")
    assert isinstance(space.exact(lossy).comm, AllReduce)
    plain = make_run("tune=search")
    assert space.exact(plain) is plain


def test_the_share_that_was_learned():
    assert share_learned(FALLING, FALLING) == 1.0
    assert share_learned([2.0, 2.0, 1.6, 1.4], [2.0, 1.5, 1.0, 1.0]) == pytest.approx(0.5)
    assert share_learned([2.0, 2.5, 3.0, 3.0], [2.0, 1.5, 1.0, 1.0]) == pytest.approx(-1.0)
    assert share_learned(FALLING, [1.0, 1.0, 1.1, 1.1]) is None


def test_workers_that_cannot_be_started_again_are_refused(make_run, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^tune: a search starts fresh workers for each setting, and here torchrun"):
        make_run("tune=search")


def test_it_ends_with_what_was_predicted_beside_what_was_measured(tmp_path):
    code, output = run(
        tmp_path, *SMALL, "tune=search", "tune.steps=10", "tune.candidates=1", "tune.rounds=1", "tune.trial=2"
    )
    assert code == 0, output
    assert "predicted" in output[output.index("Tried") :]
    folder = only_run(tmp_path)
    assert sorted(path.name for path in (folder / "trials").iterdir()) == ["01", "02"]
    assert not list(folder.rglob("checkpoints"))
