"""Key figures and how numbers are written."""

from __future__ import annotations

import pytest

from tests.report.scene import pipeline_run, run
from trainer.overlap.evidence import Metrics
from trainer.report import figures, units


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0"), (1512.7, "1,513"), (12.345, "12.3"), (0.001234, "0.00123"), (-4.567, "-4.57"), (1e9, "1,000,000,000")],
)
def test_numbers_are_short_and_never_have_an_exponent(value, written):
    assert units.short(value) == written


@pytest.mark.parametrize(
    ("count", "written"),
    [(25e6, "25.0 MB"), (340008, "0.340 MB"), (7172, "7.17 kB"), (12, "12 bytes"), (3e9, "3.00 GB")],
)
def test_sizes(count, written):
    assert units.size(count) == written


@pytest.mark.parametrize(("value", "written"), [(0.0077, "7.7 Mbit/s"), (3.46, "3.5 Gbit/s"), (400, "400 Gbit/s")])
def test_rates(value, written):
    assert units.rate(value) == written


def test_the_headline_answers_whether_it_overlaps():
    assert figures.headline(run()) == (
        "In a typical step gradients travel for 35.0 ms. 71% of that is hidden beside computation; "
        "10.0 ms, 12% of the step, is exposed."
    )
    assert figures.headline(run(metrics=[])).startswith("No communication was measured")


def test_the_headline_of_a_pipeline_says_its_bubble():
    assert figures.headline(pipeline_run()).endswith(
        "is exposed. Ranks wait for neighbouring stages in 7.5% of a step."
    )
    alone = pipeline_run(metrics=[Metrics(step=10, **{"overlap/bubble_share": 0.2})])
    assert figures.headline(alone) == "Ranks wait for neighbouring stages in 20% of a step."
    assert figures.Figure("7.5%", "bubble of the pipeline") in figures.glance(pipeline_run())
    rows = {label: value for label, value, _ in figures.numbers(pipeline_run()).rows}
    assert rows["sent by a rank to neighbouring stages"] == "2.00 MB"


def test_the_table_has_the_worst_rank_where_it_is_known():
    rows = {label: (value, worst) for label, value, worst in figures.numbers(run()).rows}
    assert rows["exposed communication"] == ("10.0 ms", "12.0 ms")
    assert rows["forward"] == ("18.0 ms", None)
    assert rows["accuracy, last"] == ("98.00%", None)
    assert "encoding and decoding" not in rows


def test_results_are_those_at_the_end():
    rows = {label: value for label, value, _ in figures.numbers(run()).rows}
    assert rows["training loss, last"] == "0.0400"


def test_without_metrics_there_are_no_figures():
    assert figures.numbers(run(metrics=[])) is None
    assert figures.glance(run(metrics=[])) == []
