from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import changed, equal, pipeline
from tests.doctor.scene import run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.stages_unbalanced import look
from trainer.pipeline.simulate import Costs

# The second stage needs 6 ms a micro-batch, the first one 3.
UNEVEN = Costs([1, 2], [1, 2], [1, 2], [0])


def test_a_slow_stage_is_named_and_the_cut_left_to_measurements():
    assert look(pipeline("1f1b", 2, 8, UNEVEN, split=["layers.1"])) == Finding(
        "Stage 1 has more to do than the others, which wait",
        "Forward and backward passes take 24.0 ms, 48.0 ms a step on the ranks from the first stage to the last; the"
        " slowest is 33 % above the mean. Its ranks wait 3.0 ms for neighbours, the others 27.0 ms. The cut was given;"
        " measured times can decide it.",
        "parallel.pipeline.split=auto",
        pytest.approx(12),
    )


def test_where_the_cut_was_measured_another_number_of_stages_is_tried():
    two = look(pipeline("1f1b", 2, 8, UNEVEN))
    chosen = look(pipeline("1f1b", 2, 8, UNEVEN, schedule="auto"))
    four = look(pipeline("1f1b", 4, 8, Costs([1, 1, 2, 1], [1, 1, 2, 1], [1, 1, 2, 1], [0] * 3)))
    assert two is not None
    assert chosen is not None
    assert four is not None
    assert [finding.advice for finding in (two, chosen, four)] == [
        "parallel.pipeline.schedule=auto",
        "parallel.pipeline.stages=2",
        "parallel.pipeline.size=2",
    ]


def test_equal_stages_and_plain_replicas_are_left_alone():
    assert look(pipeline("1f1b", 2, 8, equal(2))) is None
    assert look(run(windows(sums(), sums(backward=90)))) is None


def test_a_slow_stage_that_nobody_waits_for_is_left_alone():
    waits = {rank: {"await_activations": 10.0, "await_gradients": 10.0} for rank in range(2)}
    assert look(changed(pipeline("1f1b", 2, 8, UNEVEN), waits)) is None


def test_too_few_windows_tell_nothing():
    assert look(pipeline("1f1b", 2, 8, UNEVEN, count=4)) is None
