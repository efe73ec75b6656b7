"""Sweeps as they are typed, from the command line to the table; the runs themselves are made up."""

from __future__ import annotations

import csv
import json
import os
import signal

import pytest

from tests.sweep.scene import SMALL, only_sweep, write_metrics
from trainer.launch import Stopped, WorkerFailed
from trainer.sweep.result import read_all


def rows(sweep):
    return list(csv.DictReader((sweep / "sweep.csv").read_text().splitlines()))


def test_a_grid_is_run_and_ranked(train, tmp_path, capsys):
    assert train("-m", *SMALL, "batch.size=32,64,48", "comm=fp16,topk") == 0
    sweep = only_sweep(tmp_path)
    assert [run.folder.name for run in train.runs] == ["0", "1", "2", "3", "4", "5"]
    assert [(row["rank"], row["run"], row["batch.size"], row["comm"]) for row in rows(sweep)] == [
        ("1", "2", "64", "fp16"),
        ("1", "3", "64", "topk"),
        ("3", "4", "48", "fp16"),
        ("3", "5", "48", "topk"),
        ("5", "0", "32", "fp16"),
        ("5", "1", "32", "topk"),
    ]
    assert (sweep / "sweep.html").exists()
    printed = capsys.readouterr().out.splitlines()
    assert "sweep: run 1 of 6, 0: batch.size=32 comm=fp16" in printed
    ended = next(line for line in printed if line.startswith("sweep: run 3 of 6, 2: done in "))
    assert "speed/samples_per_s 64.00; best so far 64.00 (2); about 0:00:0" in ended


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("batch.sizee=1,2",), "batch.sizee: unknown option; did you mean 'batch.size'?"),
        (("comm=fp16,tpk",), "comm: there is no comm 'tpk'; did you mean 'topk'?"),
        (
            ("batch.size=64,many",),
            "batch.size: 'many' is not allowed: input should be a valid integer; size is the number of samples in one"
            " optimizer step, over all ranks",
        ),
        ((), "-m: nothing is swept; give an option several values, as in -m comm=allreduce,topk, or leave out -m"),
        (("seed=range(3,3)",), "seed: seed=range(3,3) has no values; name some, as in -m comm=allreduce,topk"),
        (
            ("comm=fp16,topk", "sweep.objective=speed"),
            "sweep.direction: whether more or less of speed is better is not known; set sweep.direction=max or"
            " sweep.direction=min",
        ),
        (
            ("sweep.target=1,2",),
            "sweep.target: one sweep has one value of it, and sweep.target=1,2 gives several; name one",
        ),
    ],
)
def test_what_cannot_be_swept_stops_it_before_the_first_run(train, tmp_path, capsys, arguments, error):
    assert train("-m", *SMALL, *arguments) == 2
    assert capsys.readouterr().err.splitlines() == [error]
    assert not train.runs
    assert not list(tmp_path.iterdir())


def test_refused_and_failed_runs_are_listed_and_the_rest_goes_on(train, tmp_path, capsys):
    def fails_at_32(run):
        if run.batch.size == 32:
            raise WorkerFailed("rank 1 was killed by SIGKILL")
        write_metrics(run.folder, {"step": 4, "speed/samples_per_s": 1.0})

    train.does = fails_at_32
    assert train("-m", *SMALL, "batch.size=32,63,64") == 2
    assert [run.batch.size for run in train.runs] == [32, 64]
    listed = {row["batch.size"]: (row["status"], row["reason"]) for row in rows(only_sweep(tmp_path))}
    refusal = "batch.size: 63 does not divide by 2 data ranks x 1 micro-batches; use 62 or 64"
    assert listed == {"64": ("done", ""), "32": ("failed", "rank 1 was killed by SIGKILL"), "63": ("refused", refusal)}
    out = capsys.readouterr().out
    assert out.index(f"sweep: 1 is refused and left out: {refusal}") < out.index("sweep: run 1 of 3")


def test_a_run_that_anything_ends_does_not_end_the_sweep(train, tmp_path, capsys):
    def breaks(run):
        if run.batch.size == 32:
            raise OSError(28, "No space left on device")
        raise ValueError("never seen")

    train.does = breaks
    assert train("-m", *SMALL, "batch.size=32,64") == 1
    reasons = [result.reason for result in read_all(only_sweep(tmp_path)).values()]
    assert reasons == [
        "folder: No space left on device; make room, and go on with sweep.resume",
        "ValueError: never seen",
    ]


def test_what_a_run_leaves_in_the_environment_is_gone_for_the_next(train, monkeypatch):
    seen = []

    def leaves(run):
        seen.append((os.environ.get("LEFT"), os.environ["KEPT"], signal.getsignal(signal.SIGINT)))
        os.environ["LEFT"] = "behind"
        del os.environ["KEPT"]
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    monkeypatch.setenv("KEPT", "yes")
    train.does = leaves
    train("-m", *SMALL, "batch.size=32,64")
    assert seen[0] == seen[1]
    assert "LEFT" not in os.environ


def test_a_stopped_sweep_has_its_table_and_goes_on_where_it_was(train, tmp_path, capsys):
    def stops_at_48(run):
        if run.batch.size == 48 and not (run.folder / "metrics.jsonl").exists():
            write_metrics(run.folder, {"step": 2, "speed/samples_per_s": 1.0})
            raise Stopped(signal.SIGINT)
        write_metrics(run.folder, {"step": 4, "speed/samples_per_s": float(run.batch.size)})

    train.does = stops_at_48
    assert train("-m", *SMALL, "batch.size=32,48,64") == 130
    sweep = only_sweep(tmp_path)
    assert [(row["run"], row["status"], row["reason"]) for row in rows(sweep)] == [
        ("0", "done", ""),
        ("1", "stopped", "stopped by SIGINT"),
    ]
    capsys.readouterr()

    assert train("-m", f"sweep.resume={sweep}") == 0
    assert [(run.folder.name, run.batch.size) for run in train.runs] == [("1", 48), ("2", 64)]
    assert [(row["run"], row["rank"]) for row in rows(sweep)] == [("2", "1"), ("1", "2"), ("0", "3")]
    assert "sweep: 1 of 3 runs are done; 2 are to do, of which 1 had begun" in capsys.readouterr().out
    assert train("-m", f"sweep.resume={sweep}") == 0
    assert not train.runs


def test_a_resumed_sweep_may_have_another_grid_and_says_so(train, tmp_path, capsys):
    assert train("-m", *SMALL, "batch.size=32,64") == 0
    sweep = only_sweep(tmp_path)
    capsys.readouterr()
    assert train("-m", *SMALL, "batch.size=64,48,16", f"sweep.resume={sweep}") == 0
    assert [(run.folder.name, run.batch.size) for run in train.runs] == [("2", 48), ("3", 16)]
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sweep: ")]
    assert said[:3] == [
        "sweep: 1 of 3 runs are done; 2 are to do, of which 0 had begun",
        "sweep: 2 of them are new to this sweep's grid: 2, 3",
        "sweep: the grid asked for lacks 1 runs of this sweep, which are left as they are and ranked too: 0",
    ]
    assert list(json.loads((sweep / "grid.json").read_text())) == ["0", "1", "2", "3"]
    assert train("-m", "model=mlp", "batch.size=1,2", f"sweep.resume={sweep}") == 2
    assert "sweep.resume: none of the 2 runs asked for is one of" in capsys.readouterr().err


def test_an_objective_that_no_run_wrote_is_said_with_those_there_were(train, capsys):
    assert train("-m", *SMALL, "batch.size=32,64", "sweep.objective=speed/sample_per_s") == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "sweep.objective: none of 2 runs has a value: no speed/sample_per_s; did you mean 'speed/samples_per_s'? There"
        " were: speed/samples_per_s, train/loss"
    )


def test_a_folder_of_another_sweep_is_refused(train, capsys):
    here = ("-m", *SMALL, "batch.size=32,64", "hydra.sweep.dir=here")
    assert train(*here) == 0
    assert train(*here) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "hydra.sweep.dir: here holds another sweep; choose a new folder, or go on with it by sweep.resume=here"
    )


def test_swept_experiments_lie_in_one_folder_and_one_wandb_group(train, tmp_path):
    assert train("-m", "experiment=smoke,ceiling", "model=mlp", "logger=[jsonl,wandb]") == 0
    sweep = only_sweep(tmp_path)
    assert [run.folder for run in train.runs] == [sweep / "0", sweep / "1"]
    assert [run.logger["wandb"].group for run in train.runs] == [sweep.name, sweep.name]


def test_a_dry_sweep_describes_its_runs_and_writes_nothing(train, tmp_path, capsys):
    assert train("-m", *SMALL, "batch.size=32,63", "dry_run=true") == 2
    printed = capsys.readouterr()
    assert "batch:\n  size: 32" in printed.out
    assert "batch.size: 63 does not divide" in printed.err
    assert not list(tmp_path.iterdir())


def test_ranks_of_another_launcher_leave_the_sweeps_files_to_the_first(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("trainer.meeting.agree", lambda key, value: value)
    for rank in ("1", "0"):
        for name, value in {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
            monkeypatch.setenv(name, value)
        assert train("-m", *SMALL, "batch.size=32,64", f"hydra.sweep.dir={tmp_path / 'here'}") == 0
        assert (tmp_path / "here" / "sweep.csv").exists() == (rank == "0")
        assert (tmp_path / "here" / "0" / "result.json").exists() == (rank == "0")
        assert ("sweep:" in capsys.readouterr().out) == (rank == "0")


def test_a_preset_search_space_is_a_grid_too(train):
    assert train("-m", *SMALL, "search=buckets_hooks") == 0
    pairs = {(run.parallel.data.bucket_cap_mb, type(run.comm).__name__) for run in train.runs}
    assert len(pairs) == len(train.runs) == 15


def test_nodes_that_are_not_the_first_leave_the_sweeps_files_to_it(train, tmp_path, capsys):
    node = ("launch.nodes=2", "launch.rendezvous=localhost:1", "hydra.sweep.dir=here")
    assert train("-m", *SMALL, "batch.size=32,64", *node, "launch.node_rank=1") == 0
    assert not list(tmp_path.glob("here/**/result.json"))
    assert "sweep:" not in capsys.readouterr().out
    assert train("-m", *SMALL, "batch.size=32,64", *node, "launch.node_rank=0") == 0
    assert len(read_all(tmp_path / "here")) == 2
    (tmp_path / "here" / "1" / "result.json").unlink()
    place = ("launch.rendezvous=localhost:2", "launch.node_rank=1", "sweep.resume=here")
    for given in ((), (*SMALL, "batch.size=64,32", "launch.nodes=2")):
        assert train("-m", *given, *place) == 0
        (run,) = train.runs
        assert (run.batch.size, run.launch.rendezvous, run.launch.node_rank) == (64, "localhost:2", 1)


def test_a_sweep_goes_on_in_folders_of_any_name(train, tmp_path):
    assert train("-m", *SMALL, "seed=1,2", "hydra.sweep.subdir=s_${seed}", 'hydra.sweep.dir="it\'s a, dir"') == 0
    (tmp_path / "it's a, dir" / "s_2" / "result.json").unlink()
    assert train("-m", 'sweep.resume="it\'s a, dir"', "sweep.objective=train/loss") == 0
    assert [run.folder.name for run in train.runs] == ["s_2"]
    # Those that were done are ranked by what is asked for now.
    assert [row["objective: train/loss"] for row in rows(tmp_path / "it's a, dir")] == ["1.0", "1.0"]
