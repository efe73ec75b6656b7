"""Hydra's Optuna sweeper, which takes what main returns."""

from __future__ import annotations

import pytest
import yaml

from tests.sweep.scene import SMALL, only_sweep, write_metrics
from tests.tune.made_up import line, profile
from trainer.launch import WorkerFailed
from trainer.sweep.result import read_all
from trainer.tune.profile import write

pytest.importorskip("optuna", reason="optuna is not installed: pip install -e '.[sweep]'")
OPTUNA = ("hydra/sweeper=optuna", "hydra.sweeper.sampler.seed=1", "hydra.sweeper.n_jobs=1")


def test_the_preset_search_finds_the_best_of_its_space(train, tmp_path):
    def knows(run):
        write_metrics(run.folder, {"step": 4, "speed/samples_per_s": run.parallel.data.bucket_cap_mb})

    train.does = knows
    assert train("-m", *SMALL, *OPTUNA, "search=buckets_hooks", "hydra.sweeper.n_trials=12") == 0
    sweep = only_sweep(tmp_path)
    assert len(train.runs) == 12
    best = yaml.safe_load((sweep / "optimization_results.yaml").read_text())
    values = {result.value for result in read_all(sweep).values()}
    assert best["best_value"] == max(values)
    assert best["best_params"]["parallel.data.bucket_cap_mb"] == max(values)
    assert (sweep / "sweep.csv").exists()


def test_a_trial_that_fails_or_is_refused_is_one_of_several(train, tmp_path):
    def fails_at_128(run):
        if run.batch.size == 128:
            raise WorkerFailed("rank 1 was killed by SIGKILL")
        write_metrics(run.folder, {"step": 4, "train/loss": float(run.batch.size)})

    train.does = fails_at_128
    space = ("batch.size=choice(32,63,64,128)", "sweep.objective=train/loss", "hydra.sweeper.n_trials=8")
    assert train("-m", *SMALL, *OPTUNA, "hydra.sweeper.sampler.seed=4", *space) == 2
    results = read_all(only_sweep(tmp_path))
    assert len(results) == 8
    assert {result.status for result in results.values()} == {"done", "failed", "refused"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("hydra.sweeper.direction=minimize",),
            "hydra.sweeper.direction: minimize would look for the worst speed/samples_per_s; set"
            " hydra.sweeper.direction=maximize, or sweep.direction",
        ),
        (
            ("sweep.resume=here",),
            "sweep.resume: only a grid goes on from its folder; this sweeper does with hydra.sweeper.storage and"
            " hydra.sweeper.study_name",
        ),
        (
            ("launch.nodes=2", "launch.rendezvous=localhost:1"),
            "hydra/sweeper: each process would choose trials of its own; start this sweeper with python train.py on one"
            " machine, or sweep a grid",
        ),
        (("comm=fp17",), "comm: there is no comm 'fp17'; did you mean 'fp16'?"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(train, tmp_path, capsys, arguments, error):
    assert train("-m", *SMALL, *OPTUNA, "batch.size=choice(32,64)", *arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1] == error
    assert not train.runs
    assert not list(tmp_path.iterdir())


def test_a_search_without_a_single_value_ends_with_its_table(train, tmp_path, capsys):
    def fails(run):
        raise WorkerFailed("rank 1 was killed by SIGKILL")

    train.does = fails
    assert train("-m", *SMALL, *OPTUNA, "batch.size=choice(32,64)", "hydra.sweeper.n_trials=2") == 1
    assert "Traceback" not in capsys.readouterr().err
    assert (only_sweep(tmp_path) / "sweep.csv").exists()


def _profile(path, **curves):
    write(path, profile(**curves))
    return f"sweep.prior={path}"


def test_what_a_profile_predicts_to_be_fastest_is_tried_behind_the_first_trial(train, tmp_path):
    prior = _profile(tmp_path / "profile.json", fp16=line(0.0, 10_000))
    assert train("-m", *SMALL, *OPTUNA, "search=buckets_hooks", "hydra.sweeper.n_trials=6", prior) == 0
    tried = [(run.comm.choice(), run.parallel.data.bucket_cap_mb) for run in train.runs]
    # Sixteen MiB of gradient: with fp16 next to nothing is exposed, the less the smaller the last bucket is.
    assert [comm for comm, _ in tried[1:5]] == ["fp16"] * 4
    assert tried[1] == ("fp16", 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("hydra/sweeper=grid", "comm=allreduce,fp16"), "sweep.prior: a grid runs all of its jobs anyway; add"),
        ((*OPTUNA, "batch.size=choice(32,64)"), "sweep.prior: a profile tells of comm, sync, parallel.data.bucket_cap"),
        ((*OPTUNA, "comm=choice(topk,int8)"), "sweep.prior: the profile has only allreduce, and none of them is sear"),
        (
            (*OPTUNA, "comm=choice(allreduce,fp16)", "hydra.sweeper.custom_search_space=builtins.print"),
            "sweep.prior: it goes the way of hydra.sweeper.custom_search_space, which is taken; leave one of them out",
        ),
    ],
)
def test_a_prior_that_cannot_help_is_refused(train, tmp_path, capsys, arguments, error):
    prior = _profile(tmp_path / "profile.json")
    assert train("-m", *SMALL, *arguments, prior) == 2
    assert error in capsys.readouterr().err
    assert not train.runs


def test_a_prior_that_is_not_there_is_told(train, capsys):
    assert train("-m", *SMALL, *OPTUNA, "comm=choice(allreduce,fp16)", "sweep.prior=nowhere.json") == 2
    assert "sweep.prior: 'nowhere.json' is no file; give the profile.json that a run" in capsys.readouterr().err
