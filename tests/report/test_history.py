"""The charts over the steps."""

from __future__ import annotations

import pytest

from tests.report.scene import line, pipeline_run, run
from trainer.report import history, series


def past(**parts):
    return series.history(run(**parts))


def test_the_parts_of_a_step_and_the_rest_make_the_step():
    chart = history.parts(past())
    values = chart.spec["data"]["values"]
    assert all(sum(value for name, value in row.items() if name != "step") == pytest.approx(82) for row in values)
    assert [meaning for _, meaning in chart.legend][-1] == "rest"


def test_parts_that_overlap_leave_no_negative_rest():
    chart = history.parts(past(metrics=[line(10, **{"speed/step_ms": 50.0})]))
    assert min(chart.spec["data"]["values"][0].values()) == 0


def test_a_part_that_an_older_run_lacks_is_not_in_the_legend():
    lines = [line(at) for at in (10, 20)]
    for one in lines:
        del one.values["speed/data_wait_ms"]
    meanings = [meaning for _, meaning in history.parts(past(metrics=lines)).legend]
    assert "waits for data" not in meanings
    assert "forward" in meanings


def test_outliers_are_cut_off_and_the_chart_says_so():
    lines = [line(at, **{"speed/step_ms": 82.0 + (at == 1) * 5000}) for at in range(1, 60)]
    chart = history.parts(past(metrics=lines))
    assert "are cut off" in chart.says
    assert chart.spec["layer"][0]["encoding"]["y"]["scale"]["domain"][1] < 100
    assert "cut off" not in history.parts(past()).says


@pytest.mark.parametrize("draw", history.CHARTS)
def test_a_chart_without_its_metrics_is_none(draw):
    assert draw(past()) is not None
    assert draw(past(metrics=[])) is None


def test_a_single_point_is_drawn_as_one():
    mark = history.accuracy(past()).spec["layer"][0]["mark"]
    assert mark["point"] is True


def test_the_table_has_a_row_for_every_point_and_gaps_where_nothing_was_measured():
    found = history.numbers(past())
    assert [row[0] for row in found.rows] == [10, 20, 30, 40, 50]
    accuracy = found.columns.index("accuracy")
    assert [row[accuracy] for row in found.rows] == [None, None, None, None, 0.98]
    assert history.numbers(past(metrics=[])) is None


def test_a_pipelines_waits_are_one_part_of_a_step():
    chart = history.parts(series.history(pipeline_run()))
    assert "bubble of the pipeline" in [meaning for _, meaning in chart.legend]
    # 82 ms a step, of which 80 are known without the bubble, and 7.5 are bubble: nothing is left.
    assert [sorted(row.values())[0] for row in chart.spec["data"]["values"]] == [0, 0]
    assert "bubble of the pipeline" not in [meaning for _, meaning in history.parts(past()).legend]


def test_the_table_of_a_pipeline_has_its_bubble_and_what_stages_send():
    found = history.numbers(series.history(pipeline_run()))
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert (row["bubble of the pipeline (ms)"], row["sent to neighbouring stages (MB)"]) == (7.5, 2.0)
    assert "Bubble is" in history.shares(series.history(pipeline_run())).says
    assert "Bubble is" not in history.shares(past()).says
