"""The options of the pipeline axis, and the sizes they give."""

from __future__ import annotations

import pytest

from trainer.parallel.base import DataAxis, Parallel
from trainer.parallel.pipeline import PipelineAxis
from trainer.spec import ConfigError


@pytest.mark.parametrize(
    ("size", "share", "schedule", "wanted"),
    [
        (2, 32, "1f1b", 4),
        (4, 32, "1f1b", 8),
        (3, 32, "1f1b", 8),
        (4, 6, "1f1b", 6),  # no divisor is large enough: the largest
        (3, 24, "interleaved", 6),
        (3, 27, "interleaved", 9),
        (1, 32, "1f1b", 1),
    ],
)
def test_auto_takes_the_smallest_number_of_microbatches_of_at_least_twice_the_ranks(size, share, schedule, wanted):
    assert PipelineAxis(size=size, schedule=schedule).microbatches_of(share) == wanted


def test_what_the_pipeline_leaves_are_replicas():
    assert Parallel(pipeline=PipelineAxis(size=2)).sizes(8) == {"pipeline": 2, "data": 4, "tensor": 1}


def test_a_pipeline_that_does_not_divide_the_processes_is_refused():
    with pytest.raises(ConfigError) as refused:
        Parallel(pipeline=PipelineAxis(size=3)).sizes(8)
    assert str(refused.value) == (
        "parallel.pipeline.size: 3 ranks a pipeline do not divide 8 processes; use a divisor, or 6 or 9 processes"
    )


def test_replicas_of_a_pipeline_that_do_not_fill_the_processes_are_refused():
    with pytest.raises(ConfigError) as refused:
        Parallel(pipeline=PipelineAxis(size=2), data=DataAxis(size=3)).sizes(8)
    assert str(refused.value) == (
        "parallel.data.size: 3 replicas of 2 ranks each do not fill 8 processes; set parallel.data.size=-1, or start 6"
        " processes in all"
    )


def test_without_a_number_of_replicas_a_laptop_rehearses_two(make_run):
    run = make_run("parallel=pipeline", "model=mlp")
    assert run.parallel.sizes(run.place.world) == {"pipeline": 2, "data": 2, "tensor": 1}
