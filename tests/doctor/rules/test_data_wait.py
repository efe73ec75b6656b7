from __future__ import annotations

from typing import Any

import pytest

from tests.doctor.pipeline_scene import changed, equal, pipeline
from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.data_wait import look

WAITS = windows(sums(data=20, step=120), sums(data=15, step=120))


@pytest.mark.parametrize(
    ("workers", "how", "advice"),
    [
        (0, "It is loaded between two steps, by the process that trains.", "data.workers=2"),
        (1, "1 loader process a rank cannot keep up.", "data.workers=2"),
        (2, "2 loader processes a rank cannot keep up.", "data.workers=4"),
        (16, "16 loader processes keep 2 batches each; deeper queues ride out uneven batches.", "data.prefetch=4"),
    ],
)
def test_waiting_is_told_with_the_next_thing_to_try(workers: int, how: str, advice: str):
    finding = look(run(WAITS, config=config(data__workers=workers)))
    assert finding == Finding(
        "Every step waits 20.0 ms for its batch",
        f"That is 17 % of a step of 120 ms; rank 0 on host0 waits longest, the others 15.0 ms. {how}",
        advice,
        20.0,
    )


@pytest.mark.parametrize("measured", [{"data": 4}, {"data": 1, "step": 5}])
def test_a_small_part_of_the_step_or_less_than_the_handover_is_left_alone(measured: dict[str, Any]):
    assert look(run(windows(sums(**measured), sums()))) is None


def test_one_process_waits_like_many():
    finding = look(run(windows(sums(data=20, step=120, comm=0))))
    assert finding is not None
    assert finding.evidence.startswith("That is 17 % of a step of 120 ms. 2 loader")


def test_of_a_pipeline_the_first_stage_reads_data():
    whole = pipeline("1f1b", 2, 8, equal(2), replicas=2)
    assert look(changed(whole, {rank: {"data": 8.0} for rank in (2, 3)})) is None
    finding = look(changed(whole, {rank: {"data": 8.0} for rank in (0, 1)}))
    assert finding is not None
    assert finding.title == "Every step waits 8.0 ms for its batch"
