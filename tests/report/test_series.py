"""Thinning, and what files may hold instead of numbers."""

from __future__ import annotations

import math

import pytest

from tests.report.scene import run
from trainer.overlap.evidence import Metrics
from trainer.report import series


def ramp(count: int) -> list[Metrics]:
    return [Metrics(step=at, loss=float(at)) for at in range(1, count + 1)]


def test_few_points_stay_as_they_are():
    found = series.history(run(metrics=ramp(100)))
    assert [row["loss"] for row in found.rows] == list(range(1, 101))
    assert found.thinned() == ""


@pytest.mark.parametrize("count", [241, 2000, 2001])
def test_many_become_means_of_stretches_which_is_said(count):
    found = series.history(run(metrics=ramp(count)))
    assert len(found.rows) == series.POINTS
    assert found.rows[-1]["step"] == count
    assert sum(row["loss"] for row in found.rows) / len(found.rows) == pytest.approx((count + 1) / 2, rel=0.01)
    assert f"{count:,} logged steps are drawn as 240 points" in found.thinned()


def test_a_line_of_evaluation_joins_the_line_of_its_step():
    found = series.history(run(metrics=[Metrics(step=5, a=1.0), Metrics(step=5, b=2.0)]))
    assert found.rows == [{"step": 5, "a": 1.0, "b": 2.0}]


@pytest.mark.parametrize("value", [math.nan, math.inf, "fast", None, True, [1]])
def test_what_is_no_number_is_left_out(value):
    found = series.history(run(metrics=[Metrics(step=1, loss=value), Metrics(step=2, loss=1.0)]))
    assert found.of("loss") == [{"step": 2, "loss": 1.0}]
    assert series.typical(run(metrics=[Metrics(step=1, loss=value)]), "loss") is None


def test_the_typical_value_leaves_out_the_first():
    lines = [Metrics(step=at, ms=value) for at, value in enumerate((90.0, 10.0, 12.0, 11.0))]
    assert series.typical(run(metrics=lines), "ms") == 11.0
    assert series.typical(run(metrics=lines[:1]), "ms") == 90.0


def test_no_metrics_are_an_empty_history():
    assert series.history(run(metrics=[])).rows == []
