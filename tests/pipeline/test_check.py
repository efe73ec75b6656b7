"""What a pipeline cannot do is refused before a process starts, in one line."""

from __future__ import annotations

import logging

import pytest

from trainer.pipeline.check import picture
from trainer.spec import ConfigError


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("parallel.pipeline.size=4", "model=mlp"),
            "parallel.pipeline.size: 4 ranks x 1 stages are 4, but the model can be cut into 3 at most (1, 3, 5); use"
            " fewer stages, or a deeper model",
        ),
        (
            ("parallel.pipeline.microbatches=3",),
            "parallel.pipeline.microbatches: 3 do not divide the 32 samples that a replica computes at once (batch.size"
            " / replicas / batch.microbatches); use 2, or auto",
        ),
        (
            ("parallel.pipeline.schedule=1f1b", "parallel.pipeline.stages=2"),
            "parallel.pipeline.stages: schedule=1f1b has one stage on each rank, not 2; use"
            " parallel.pipeline.schedule=interleaved",
        ),
        (
            ("parallel.pipeline.schedule=interleaved", "parallel.pipeline.stages=1"),
            "parallel.pipeline.stages: schedule=interleaved needs at least 2 stages on each rank; use"
            " parallel.pipeline.stages=2, or schedule=1f1b",
        ),
        (
            ("parallel.pipeline.schedule=interleaved", "parallel.pipeline.microbatches=1"),
            "parallel.pipeline.microbatches: 1 do not divide by the 2 ranks of the pipeline, in whose rounds"
            " schedule=interleaved passes them; use a multiple of 2",
        ),
        (
            ("parallel.pipeline.split=[layer2.0,layer3.0]",),
            "parallel.pipeline.split: 2 layers are named, but 2 stages begin with 1 besides the first; name as many, or"
            " use parallel.pipeline.split=auto",
        ),
        (
            ("parallel.pipeline.size=3", "parallel.pipeline.split=[layer3.0,layer2.0]"),
            "parallel.pipeline.split: layer3.0, layer2.0 are not in the order of the forward pass; name them as they"
            " follow one another: layer2.0, layer3.0",
        ),
        (
            ("parallel.pipeline.split=[conv1]",),
            "parallel.pipeline.split: conv1 begins the first stage anyway; name only the layers that begin later ones",
        ),
        (
            ("parallel.pipeline.split=[layer2.00]",),
            "parallel.pipeline.split: the model has no layer 'layer2.00'; did you mean 'layer2.0'?",
        ),
        (
            ("sync=next_forward",),
            "sync: the micro-batches of a pipeline pass through a layer one after another before the first gradient is"
            " there, so its wait would have to be moved into the schedule; use sync=strict, or sync=partitioned",
        ),
        (
            ("parallel.pipeline.schedule=zero_bubble", "compile=true"),
            "compile: a compiled backward pass cannot be done in two parts; use compile=false, or"
            " parallel.pipeline.schedule=1f1b",
        ),
    ],
)
def test_it_is_refused(make_run, overrides, message):
    with pytest.raises(ConfigError) as refused:
        make_run("parallel=pipeline", *overrides)
    assert str(refused.value) == message


def test_few_microbatches_work_with_a_warning_that_tells_the_bubble(make_run, caplog):
    with caplog.at_level(logging.WARNING):
        make_run("parallel=pipeline", "model=vit", "parallel.pipeline.size=4", "parallel.pipeline.microbatches=2")
    assert caplog.messages == [
        "parallel.pipeline.microbatches: 2 for 4 ranks leave them idle for 60 % of a step; with 8 it would be 27 %"
    ]


def test_batch_norm_is_told_once_what_it_sees(make_run, caplog):
    with caplog.at_level(logging.WARNING):
        make_run("parallel=pipeline")
    assert caplog.messages == ["parallel.pipeline: batch norm takes the mean of one micro-batch, 8 samples, at a time"]


def test_the_picture_of_a_run_shows_its_schedule_and_bubble(make_run):
    lines = picture(make_run("parallel=gpipe", "model=mlp", "parallel.pipeline.microbatches=2"))
    assert lines == [
        "pipeline: gpipe, 2 stages on 2 ranks, 2 micro-batches",
        "rank 0 | F0 F1          B0--- B1---",
        "rank 1 |    F0 F1 B0--- B1---",
        "bubble: 33.3 % of a step, if stages take the same time, backward passes twice that of forward passes, and hops"
        " none",
        "micro-batches whose activations a rank holds at once: 2, 2",
    ]
