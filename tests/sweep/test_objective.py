"""The value of a run, from its lines of metrics."""

from __future__ import annotations

import pytest

from tests.sweep.scene import result, write_metrics
from trainer.overlap.evidence import Evidence, Metrics
from trainer.sweep.objective import NoValue, measure, measured, results
from trainer.sweep.options import Sweep


def evidence(tmp_path, *lines):
    return Evidence(tmp_path, metrics=[Metrics(**line) for line in lines])


def past(tmp_path):
    """Steps of 100 ms, and of 200 ms from step 10 on; evaluations between the lines."""
    return evidence(
        tmp_path,
        {"step": 5, "speed/step_ms": 100.0, "train/loss": 3.0},
        {"step": 8, "eval/accuracy": 0.5, "eval/loss": 2.0},
        {"step": 10, "speed/step_ms": 100.0, "train/loss": 2.0},
        {"step": 16, "eval/accuracy": 0.9, "eval/loss": 0.5},
        {"step": 20, "speed/step_ms": 200.0, "train/loss": 1.0, "speed/step_ms/worst": 250.0},
    )


def test_a_speed_is_what_it_typically_was_and_a_result_what_it_ended_with(tmp_path):
    run = past(tmp_path)
    assert measure(run, Sweep(objective="speed/step_ms")) == 150.0  # without the first line, which warms up
    assert measure(run, Sweep(objective="train/loss")) == 1.0
    assert measure(run, Sweep(objective="eval/accuracy")) == 0.9
    assert list(results(run)) == ["eval/accuracy", "eval/loss", "speed/step_ms", "train/loss"]


@pytest.mark.parametrize(
    ("objective", "target", "seconds"),
    [("eval/accuracy", 0.4, 0.8), ("eval/accuracy", 0.9, 2.2), ("eval/loss", 0.6, 2.2), ("train/loss", 2.0, 1.0)],
)
def test_time_to_a_target_is_the_time_of_the_steps_until_then(tmp_path, objective, target, seconds):
    assert measure(past(tmp_path), Sweep(objective=objective, target=target)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"objective": "eval/accuracy", "target": 0.95}, "eval/accuracy came to 0.9 and not to 0.95"),
        ({"objective": "eval/loss", "target": 0.1}, "eval/loss came to 0.5 and not to 0.1"),
        (
            {"objective": "eval/acuracy", "direction": "max"},
            "no eval/acuracy; did you mean 'eval/accuracy'? There were: eval/accuracy, eval/loss, speed/step_ms,"
            " train/loss",
        ),
        (
            {"objective": "gpu/utilisation"},
            "no gpu/utilisation; there were: eval/accuracy, eval/loss, speed/step_ms, train/loss",
        ),
    ],
)
def test_a_run_without_a_value_says_why(tmp_path, options, reason):
    with pytest.raises(NoValue) as caught:
        measure(past(tmp_path), Sweep(**options))
    assert str(caught.value) == reason


def test_a_run_that_wrote_nothing_says_what_it_takes(tmp_path):
    with pytest.raises(NoValue, match="no metrics were written; keep jsonl among the loggers"):
        measure(evidence(tmp_path), Sweep())


def test_a_time_that_was_not_measured_is_not_made_up(tmp_path):
    run = evidence(tmp_path, {"step": 4, "eval/accuracy": 0.9}, {"step": 3, "speed/step_ms": 1.0})
    with pytest.raises(NoValue, match="speed/step_ms was not written up to step 4"):
        measure(run, Sweep(objective="eval/accuracy", target=0.5))


def test_only_a_run_that_was_done_has_a_value(tmp_path):
    write_metrics(tmp_path, {"step": 5, "speed/samples_per_s": 7.0})
    assert measured(tmp_path, result(), Sweep()).value == 7.0
    stopped = measured(tmp_path, result(status="stopped", reason="stopped by SIGINT"), Sweep())
    assert (stopped.value, stopped.metrics, stopped.reason) == (None, {"speed/samples_per_s": 7.0}, "stopped by SIGINT")
