from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import changed, equal, pipeline
from tests.doctor.scene import run, sums, windows
from trainer.doctor.rules.slow_hops import look


def test_1f1b_over_a_slow_link_is_told_to_have_more_under_way():
    finding = look(pipeline("1f1b", 2, 16, equal(2, hop=1.0)))
    assert finding is not None
    assert finding.title == "A message between stages takes 1.0 ms, and they wait for it"
    assert finding.evidence.startswith("That is 33 % of the 3.0 ms that a stage computes on a micro-batch.")
    assert finding.advice == "parallel.pipeline.schedule=eager_1f1b"
    # The simulation gives 67 and 53 ms; all that is waited beyond filling and draining is more than that.
    assert "would take 53.0 ms instead of 67.0 ms" in finding.evidence
    assert finding.gain_ms == pytest.approx(14, abs=1)


def test_where_many_under_way_do_not_help_fewer_stages_are_tried():
    finding = look(pipeline("eager_1f1b", 4, 8, equal(4, hop=6.0)))
    assert finding is not None
    assert finding.advice == "parallel.pipeline.size=2"
    assert "a rank then holds twice as many parameters" in finding.evidence


def test_short_hops_and_no_pipeline_are_left_alone():
    assert look(pipeline("1f1b", 2, 16, equal(2, hop=0.2))) is None
    assert look(pipeline("eager_1f1b", 2, 16, equal(2, hop=1.0))) is None
    assert look(run(windows(sums(), sums()))) is None


def test_a_hop_that_nobody_was_seen_to_wait_for_is_left_alone():
    waits = {rank: {"await_activations": 1.0, "await_gradients": 1.0} for rank in range(2)}
    assert look(changed(pipeline("1f1b", 2, 16, equal(2, hop=1.0)), waits)) is None
