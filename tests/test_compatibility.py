"""The table of what cannot be combined: every row refuses, and nothing else does."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from trainer import compatibility
from trainer.comm.allreduce import AllReduce
from trainer.comm.fp16 import FP16
from trainer.comm.int8 import Int8
from trainer.comm.noop import NoOp
from trainer.comm.topk import TopK
from trainer.compatibility import TABLE, Row
from trainer.optimizer.adamw import AdamW
from trainer.optimizer.by_name import ByName
from trainer.parallel.base import DataAxis, Parallel
from trainer.parallel.pipeline import PipelineAxis
from trainer.parallel.tensor import TensorAxis
from trainer.profile.base import Profile
from trainer.run import Batch, Clip, Run
from trainer.spec import ConfigError
from trainer.sync.delayed import Delayed
from trainer.sync.diloco import DiLoCo
from trainer.sync.local_sgd import LocalSGD
from trainer.sync.next_forward import NextForward
from trainer.sync.partitioned import Partitioned
from trainer.sync.strict import Strict

# What a user may choose, alternatives in one line each.
CHOICES: dict[str, list[Any]] = {
    "comm": [AllReduce(), NoOp(), FP16(), TopK(), TopK(hierarchical=True), Int8(error_feedback=False)],
    "sync": [Strict(), Strict(guard=True), Partitioned(), NextForward(), Delayed(), LocalSGD(), DiLoCo()],
    "precision": ["fp32", "bf16", "fp16"],
    "clip": [Clip(), Clip(max_norm=1.0), Clip(max_norm=1.0, mode="previous_norm"), Clip(mode="previous_norm")],
    "batch": [Batch(), Batch(microbatches=4)],
    "compile": [False, True],
    "optimizer": [AdamW(), ByName(), ByName(class_name="Adafactor")],
    "profile": [Profile(), Profile(ablation_every=2), Profile(record_replay=True)],
    "parallel": [
        Parallel(),
        Parallel(data=DataAxis(find_unused_parameters=True)),
        Parallel(data=DataAxis(size=1)),
        Parallel(pipeline=PipelineAxis(size=2)),
        Parallel(pipeline=PipelineAxis(size=2), data=DataAxis(find_unused_parameters=True)),
        Parallel(pipeline=PipelineAxis(size=2, schedule="zero_bubble")),
        Parallel(tensor=TensorAxis(size=2)),
        Parallel(data=DataAxis(shard=True)),
        Parallel(data=DataAxis(shard=True, find_unused_parameters=True)),
        Parallel(data=DataAxis(shard=True, bucket_cap_mb=1.0)),
        Parallel(data=DataAxis(shard=True), pipeline=PipelineAxis(size=2)),
        Parallel(data=DataAxis(shard=True), tensor=TensorAxis(size=2)),
    ],
}


def refused(run: Run) -> list[Row]:
    return [row for row in TABLE if row.one.present(run) and row.other.present(run)]


@pytest.fixture
def base(make_run) -> Run:
    return make_run("launch.processes=2")


def placed(run: Run) -> Run:
    """With as many processes as two replicas need, or one where there is only one."""
    ranks, fills = run.parallel.ranks()
    return run.model_copy(update={"place": run.place._replace(processes=2 * ranks if fills else ranks)})


def variants(base: Run) -> list[Run]:
    """Every pair of choices of two different kinds, all else by default."""
    return [
        base.model_copy(update={one: first, other: second})
        for one, other in itertools.combinations(CHOICES, 2)
        for first, second in itertools.product(CHOICES[one], CHOICES[other])
    ]


def test_every_pair_of_choices_is_refused_by_its_row_or_accepted(base: Run):
    for run in variants(base):
        run = placed(run)
        rows = refused(run)
        if rows:
            with pytest.raises(ConfigError) as caught:
                compatibility.check(run)
            assert str(caught.value) == str(rows[0].error())
        else:
            compatibility.check(run)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.one.name} + {row.other.name}")
def test_every_row_refuses_some_pair_and_is_one_line(base: Run, row: Row):
    runs = [placed(run) for run in variants(base)]
    assert any(row in refused(run) for run in runs)
    assert "\n" not in str(row.error())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("sync=partitioned", "clip.max_norm=1.0"),
            "clip.mode: the norm of the gradient is known when all of it is there, and this sync rule updates before;"
            " use clip.mode=previous_norm, which clips by the norm of the step before, or sync=strict",
        ),
        (
            ("sync=next_forward", "compile=true"),
            "compile: a compiled model cannot wait between its layers, as this sync rule does; use compile=false, or"
            " sync=strict",
        ),
        (
            ("sync=partitioned", "parallel.data.find_unused_parameters=true"),
            "parallel.data.find_unused_parameters: which parameters have no gradient is known at the end of the"
            " backward pass, and this sync rule updates before; use sync=strict",
        ),
        (
            ("comm=topk", "precision=fp16"),
            "comm.error_feedback: fp16 changes its loss scale, and what is pending would keep the old one; use"
            " precision=bf16, or comm.error_feedback=false",
        ),
        (
            ("comm=topk", "parallel=none"),
            "comm: there is nothing to send, since there is one replica of the model; use comm=allreduce, or more"
            " processes with launch.processes=2",
        ),
    ],
)
def test_a_user_is_told_in_one_line(make_run, overrides, message):
    with pytest.raises(ConfigError) as caught:
        make_run(*overrides)
    assert str(caught.value) == message


def test_the_page_is_the_table():
    page = Path(__file__).parent.parent / "docs" / "compatibility.md"
    assert page.read_text() == compatibility.markdown() + "\n"
