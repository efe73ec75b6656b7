from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import equal, pipeline
from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.gpu_idle import look


def utilisation(lowest: list[float], mean: float = 80) -> list[dict[str, float]]:
    return [{"gpu/utilisation": mean, "gpu/utilisation/worst": value} for value in lowest]


def test_dips_in_most_lines_are_told_with_what_takes_the_time():
    seen = (
        "In 4 of 5 stretches between two lines of metrics a GPU was idle for a whole sample, while it is 80 % busy in"
        " the mean. Of a step in which nothing computes, waiting for data is the largest part: 20.0 ms."
    )
    finding = look(run(windows(sums(data=20), sums()), metrics=utilisation([90, 0, 40, 3, 0, 0])))
    assert finding == Finding("GPU utilisation falls to zero again and again", seen, "data.workers=4", None)


def test_exposed_communication_is_told_to_be_looked_at():
    finding = look(run(windows(sums(exposed=20), sums()), metrics=utilisation([90, 0, 40, 3, 0, 0])))
    assert finding is not None
    assert finding.evidence.endswith("exposed communication is the largest part: 20.0 ms.")
    assert finding.advice == "profile=window"


@pytest.mark.parametrize(
    "metrics",
    [
        utilisation([90, 0, 40, 30, 60, 50, 0]),  # now and then
        utilisation([0] * 6, mean=10),  # idle all the time
        utilisation([0, 0, 0]),  # too short to tell
        [],
    ],
)
def test_other_runs_are_left_alone(metrics: list[dict[str, float]]):
    assert look(run(windows(sums(data=20), sums()), metrics=metrics, config=config(place__device="cuda"))) is None


def test_the_bubble_of_a_pipeline_is_named_where_it_is_the_largest_part():
    idle = pipeline("1f1b", 2, 4, equal(2, hop=5.0))
    finding = look(idle._replace(metrics=run([], metrics=utilisation([90, 0, 40, 3, 0, 0])).metrics))
    assert finding is not None
    assert "waiting for neighbouring stages is the largest part" in finding.evidence
    assert finding.advice == "parallel.pipeline.schedule=auto"
