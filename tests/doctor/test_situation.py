"""What rules start from, and when there is nothing to start from."""

from __future__ import annotations

import math

import pytest

from tests.doctor.pipeline_scene import staged
from tests.doctor.scene import Queue, config, over, run, sums, windows
from trainer.doctor.situation import situation
from trainer.doctor.typical import number, typical_metric, typical_ms
from trainer.overlap.evidence import Window


def test_times_are_medians_over_windows_and_means_over_ranks():
    steps = windows(sums(exposed=10), sums(exposed=20))
    steps[0] = Window(step=10, steps=10, ranks=[sums(exposed=900)] * 2)
    steps[3] = Window(step=40, steps=10, ranks=[sums(exposed=30000)] * 2)
    at = situation(run(steps))
    assert at is not None
    assert (at.exposed_ms, at.comm_ms, at.step_ms) == (pytest.approx(15), pytest.approx(60), pytest.approx(100))
    assert (at.hidden, at.exposed_share, at.step, at.link) == (pytest.approx(0.75), pytest.approx(0.15), None, None)


def test_without_windows_the_metrics_tell():
    metrics = [
        {"speed/step_ms/worst": 100.0, "overlap/comm_ms": 60.0, "overlap/exposed_ms": value} for value in (50, 20, 20)
    ]
    at = situation(run([], metrics=metrics))
    assert at is not None
    assert (at.exposed_ms, at.peers_ms) == (20, 0)


def test_one_process_and_no_communication_are_no_situation():
    assert situation(run(windows(sums()))) is None
    assert situation(run(windows(sums(comm=0, exposed=0), sums(comm=0, exposed=0)))) is None
    assert situation(run(windows(sums(), sums()), config=config(comm___target_="trainer.comm.noop.NoOp"))) is None
    assert situation(run([])) is None


def test_replicas_are_what_other_axes_leave():
    queue, buckets = Queue((0, 10), 0.1, 100), [(1.0, 5.0)]
    assert situation(over(queue, buckets)).replicas == 2  # type: ignore[union-attr]
    both = config(parallel__pipeline={"size": 2})
    assert situation(over(queue, buckets, config=both)).replicas == 1  # type: ignore[union-attr]
    named = config(parallel__data__size=2, parallel__pipeline={"size": 2})
    assert situation(over(queue, buckets, config=named)).replicas == 2  # type: ignore[union-attr]


def test_values_that_are_no_numbers_do_not_count():
    metrics = [{"x": value} for value in (1.0, "words", None, math.nan, 3.0)]
    assert typical_metric(run([], metrics=metrics), "x") == 3.0
    assert typical_ms(run([Window(step=1, steps=1, ranks=[{}, {"step": math.nan}, {"step": 0.5}])]), "step") == 500
    odd = run([], config=config(batch__size="many", batch__microbatches=True))
    assert (number(odd, "batch.size"), number(odd, "batch.microbatches"), number(odd, "a.b")) == (None, None, None)


def test_a_link_that_does_not_explain_the_typical_step_is_not_believed():
    fast, slow = (over(Queue((0, 100), 0.1, rate), [(2.0, 50.0), (2.0, 100.0)]).windows for rate in (1000, 20))
    assert situation(run(slow)).link is not None  # type: ignore[union-attr]
    # The spans of most steps are of a fast link, those of the typical step of a slow one.
    odd = [
        window.model_copy(update={"ranks": [sums(step=ms)] * 2})
        for window, ms in zip(fast[:5], (9, 80, 80, 120, 120), strict=True)
    ]
    at = situation(run([*odd, slow[5].model_copy(update={"ranks": [sums(step=100)] * 2})]))
    assert at is not None
    assert at.step is not None
    assert at.link is None


def test_of_a_pipeline_the_stage_counts_whose_gradients_hold_up_the_next_step():
    queue = Queue((0, 100), 0.1, 100)
    first = over(queue, [(2.0, 50.0), (2.0, 100.0)], {"await_activations": 0.0})
    later = over(queue, [(2.0, 50.0), (2.0, 60.0), (6.0, 100.0)], {"await_activations": 30.0})
    at = situation(staged(first, later))
    assert at is not None
    assert at.step is not None
    assert at.link is not None
    assert (at.replicas, len(at.step.buckets), at.hosts) == (2, 2, ["host0"] * 2)
    assert at.exposed_ms == situation(first).exposed_ms  # type: ignore[union-attr]
    # The step is that of the slowest rank, whichever stage it has.
    assert at.step_ms == situation(later).step_ms  # type: ignore[union-attr]
