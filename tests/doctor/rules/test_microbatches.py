from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import changed, equal, pipeline
from tests.doctor.scene import run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.microbatches import look


def test_a_pipeline_that_is_filling_and_draining_is_told_more_that_divide_its_share():
    assert look(pipeline("1f1b", 4, 4, equal(4))) == Finding(
        "The pipeline of 4 ranks has only 4 micro-batches",
        "While it fills and drains, its ranks idle 43 % of a step with 1f1b; they were seen to wait 9.0 ms for each"
        " other, 35 %. With 16 it would be 16 %. They are smaller, and compute less efficiently where they no longer"
        " fill the device.",
        "parallel.pipeline.microbatches=16",
        pytest.approx(9 * (1 - 4 / 16)),
    )


def test_a_share_that_has_few_divisors_gets_the_largest():
    evidence = pipeline("1f1b", 4, 4, equal(4))
    evidence.config["batch"]["size"] = 12
    finding = look(evidence)
    assert finding is not None
    assert finding.advice == "parallel.pipeline.microbatches=12"
    evidence.config["batch"]["size"] = 4
    assert look(evidence) is None


def test_replicas_and_accumulation_divide_the_share_before():
    evidence = pipeline("1f1b", 2, 2, equal(2), replicas=2)
    evidence.config["batch"] |= {"size": 48, "microbatches": 2}
    finding = look(evidence)
    assert finding is not None
    # 48 samples, of which a replica has 24 and computes 12 at once.
    assert finding.advice == "parallel.pipeline.microbatches=12"
    assert "With 24 it would be" in finding.evidence


def test_interleaved_stages_need_a_multiple_of_the_ranks():
    evidence = pipeline("interleaved", 3, 3, equal(6))
    evidence.config["batch"]["size"] = 60
    finding = look(evidence)
    assert finding is not None
    assert finding.advice == "parallel.pipeline.microbatches=12"


def test_a_full_pipeline_or_none_is_left_alone():
    assert look(pipeline("1f1b", 2, 4, equal(2))) is None
    assert look(pipeline("zero_bubble", 4, 8, equal(4))) is None
    assert look(run(windows(sums(), sums()))) is None


def test_what_was_not_seen_to_be_waited_is_not_claimed():
    evidence = pipeline("1f1b", 4, 4, equal(4))
    waits = {rank: {"await_activations": 0.5, "await_gradients": 0.5} for rank in range(4)}
    assert look(evidence) is not None
    assert look(changed(evidence, waits)) is None
