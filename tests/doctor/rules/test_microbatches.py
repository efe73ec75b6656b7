from __future__ import annotations

import pytest

from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.microbatches import look

STEPS = windows(sums(), sums())


def test_fewer_than_stages_are_told_four_times_as_many_as_stages():
    finding = look(run(STEPS, config=config(parallel__pipeline={"size": 4}, batch__microbatches=2)))
    assert finding == Finding(
        "4 pipeline stages have 2 micro-batches to work on",
        "A stage idles 60 % of the time while the pipeline fills and drains; with 16 micro-batches 16 %.",
        "batch.microbatches=16",
        pytest.approx(100 * (1 - (19 / 16) / (5 / 2))),
    )


def test_as_many_as_stages_or_no_pipeline_is_left_alone():
    assert look(run(STEPS, config=config(parallel__pipeline={"size": 4}, batch__microbatches=4))) is None
    assert look(run(STEPS)) is None
