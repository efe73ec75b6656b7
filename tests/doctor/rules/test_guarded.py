from __future__ import annotations

import pytest

from tests.doctor.scene import run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.guarded import look

STEPS = windows(sums(), sums())


def levels(*values: float) -> list[dict[str, float]]:
    return [{"guard/level": value} for value in values]


def test_a_guard_that_stepped_down_is_told_with_where_it_ended():
    finding = look(run(STEPS, metrics=levels(0, 0, 1, 2)))
    assert isinstance(finding, Finding)
    assert finding.title == "The run did not converge as it was asked to go"
    assert "was down in 2 of 4 lines, and ended 2 down." in finding.evidence
    finding = look(run(STEPS, metrics=levels(0, 1, 0)))
    assert finding is not None
    assert "was down in 1 of 3 lines, and was as asked for again at the end." in finding.evidence


@pytest.mark.parametrize("metrics", [levels(0, 0), []])
def test_a_guard_that_kept_still_is_not_mentioned(metrics: list[dict[str, float]]):
    assert look(run(STEPS, metrics=metrics)) is None
