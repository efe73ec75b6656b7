"""The order of runs, and the table and file that say it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.sweep.scene import result
from trainer.sweep.options import Sweep
from trainer.sweep.ranking import as_csv, rank, show

RESULTS = {
    "0": result("comm=fp16", "batch.size=32", value=10.0, seconds=1.5, metrics={"train/loss": 1.0}),
    "1": result("comm=topk", "batch.size=32", status="failed", reason="rank 0 was killed, badly", seconds=0.5),
    "2": result("comm=int8", "batch.size=32", value=30.0, seconds=2.0, metrics={"train/loss": 2.0, "eval/loss": 3.0}),
    "3": result("comm=bf16", "batch.size=32", value=10.0, seconds=1.0),
}


def test_the_largest_is_first_and_equals_share_a_place():
    ranked = rank(RESULTS, Sweep())
    assert [(entry.place, entry.job) for entry in ranked.entries] == [(1, "2"), (2, "0"), (2, "3"), (None, "1")]
    assert ranked.keys == ["comm"]
    assert ranked.best.settings == {"comm": "int8"}


def test_the_smallest_is_first_where_less_is_better():
    assert [entry.job for entry in rank(RESULTS, Sweep(objective="eval/loss")).entries] == ["0", "3", "2", "1"]
    assert rank(RESULTS, Sweep(objective="eval/accuracy", target=0.9)).best.job == "0"


def test_the_file_has_a_row_a_run_with_all_its_metrics():
    assert as_csv(rank(RESULTS, Sweep())).splitlines() == [
        "rank,run,comm,objective: speed/samples_per_s,seconds,status,reason,eval/loss,train/loss",
        "1,2,int8,30.0,2.0,done,,3.0,2.0",
        "2,0,fp16,10.0,1.5,done,,,1.0",
        "2,3,bf16,10.0,1.0,done,,,",
        ',1,topk,,0.5,failed,"rank 0 was killed, badly",,',
    ]


def test_the_table_says_what_became_of_each_run():
    stream = io.StringIO()
    results = {**RESULTS, "4": result("comm=[a]", value=None, reason="no such metric")}
    show(rank(results, Sweep()), "runs/x: 5 runs", Console(file=stream, width=150))
    lines = [line.split() for line in stream.getvalue().splitlines() if line.strip()]
    assert lines[0] == ["runs/x:", "5", "runs"]
    assert ["1", "2", "int8", "32", "30.00", "2.0", "s"] in lines
    assert ["1", "topk", "32", "-", "0.5", "s", "failed:", "rank", "0", "was", "killed,", "badly"] in lines
    assert ["4", "[a]", "-", "0.0", "s", "done:", "no", "such", "metric"] in lines


@pytest.mark.parametrize(
    ("statuses", "code"), [(["done"], 0), (["done", "failed"], 1), (["failed", "refused"], 2), (["done", "stopped"], 0)]
)
def test_the_exit_code_is_that_of_the_worst(statuses, code):
    results = {
        str(at): result(f"seed={at}", status=status, value=1.0 if status == "done" else None)
        for at, status in enumerate(statuses)
    }
    assert rank(results, Sweep()).code == code


def test_runs_that_all_missed_the_target_are_no_ranking():
    results = {str(at): result(f"seed={at}", reason=f"came to 0.{at}", metrics={"eval/accuracy": 0.5}) for at in (1, 2)}
    ranked = rank(results, Sweep(objective="eval/accuracy", target=0.9))
    assert ranked.nobody_wrote == "sweep.objective: none of 2 runs has a value: came to 0.1 / came to 0.2"
    assert ranked.code == 2
    assert ranked.best is None
