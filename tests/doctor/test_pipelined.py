"""A run's pipeline, told by what was recorded of it."""

from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import REST_MS, equal, pipeline
from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.pipelined import costs, forecast_ms, merged, pipelined
from trainer.pipeline.simulate import Costs


def test_ranks_micro_batches_and_waits_are_what_was_recorded():
    at = pipelined(pipeline("1f1b", 2, 4, equal(2), replicas=2))
    assert at is not None
    assert (at.size, at.stages, at.microbatches, at.schedule) == (2, 1, 4, "1f1b")
    assert at.parts == [[0, 1], [2, 3]]
    # Each rank waits for one micro-batch's work; a step is that of five.
    assert (at.bubble_ms, at.step_ms) == (pytest.approx(3), pytest.approx(15 + REST_MS))
    assert at.least_bubble(4) == pytest.approx(1 / 5)
    assert at.beyond_ms == pytest.approx(3 - 20 / 5)


@pytest.mark.parametrize(
    ("schedule", "stages", "share"),
    [("gpipe", 1, 3 / 11), ("1f1b", 1, 3 / 11), ("interleaved", 2, 3 / 19), ("zero_bubble", 1, 3 / 27)],
)
def test_the_least_bubble_is_that_of_the_schedule(schedule, stages, share):
    at = pipelined(pipeline(schedule, 4, 8, equal(4 * stages)))
    assert at is not None
    assert at.stages == stages
    assert at.least_bubble(8) == pytest.approx(share)
    # The passes alone, without the rest of a step, idle that.
    assert at.bubble_ms / (at.step_ms - REST_MS) == pytest.approx(share)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "eager_1f1b", "interleaved", "zero_bubble"])
def test_a_schedule_that_the_run_chose_itself_is_told_by_what_ranks_did(schedule):
    stages = 8 if schedule == "interleaved" else 4
    at = pipelined(pipeline(schedule, 4, 8, equal(stages), schedule="auto"))
    assert at is not None
    assert at.schedule == schedule


def test_no_pipeline_and_one_without_measured_waits_are_none():
    assert pipelined(run(windows(sums(), sums()))) is None
    older = config(parallel__pipeline={"size": 2, "microbatches": 4})
    assert pipelined(run(windows(sums(), sums()), config=older)) is None
    assert costs(run(windows(sums(), sums()))) is None


def test_costs_are_means_of_what_was_recorded():
    work = Costs([1, 2, 3, 4], [2, 2, 2, 2], [1, 2, 1, 2], [0.5, 1, 1.5])
    found = costs(pipeline("zero_bubble", 4, 8, work))
    assert found is not None
    for one, other in zip(found, work, strict=True):
        assert one == pytest.approx(list(other))
    whole = costs(pipeline("1f1b", 4, 8, work))
    assert whole is not None
    assert whole.backward_input == pytest.approx([1.5, 2, 1.5, 2])


def test_a_forecast_of_what_was_recorded_is_what_was_recorded():
    evidence = pipeline("1f1b", 4, 8, equal(4, hop=0.4))
    at, work = pipelined(evidence), costs(evidence)
    assert at is not None
    assert work is not None
    assert forecast_ms(at, "1f1b", 4, 8, work) == pytest.approx(at.step_ms - REST_MS)
    assert forecast_ms(at, "interleaved", 4, 6, work) is None
    assert forecast_ms(at, "1f1b", 4, 10**6, work) is None


def test_merged_stages_do_the_work_of_theirs_and_keep_the_hops_between():
    assert merged(Costs([1, 2, 3, 4], [1] * 4, [2] * 4, [5, 6, 7]), 2) == ([3, 7], [2, 2], [4, 4], [6])
