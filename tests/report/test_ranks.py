"""The chart rank by rank."""

from __future__ import annotations

import pytest

from tests.report.scene import pipeline_run, run
from trainer.overlap.evidence import Window
from trainer.report import ranks


def test_every_rank_has_its_parts_in_ms():
    means = ranks.means(run(ranks=3))
    assert [sums["forward"] for sums in means] == [pytest.approx(18), pytest.approx(19), pytest.approx(20)]
    assert means[0]["bytes"] == 25e6


def test_the_first_window_which_warms_up_does_not_count():
    cold = Window(step=1, steps=1, ranks=[{"forward": 9.0}] * 2)
    assert ranks.means(run(windows=[cold, *run().windows]))[0]["forward"] == pytest.approx(18)
    assert ranks.means(run(windows=[cold]))[0]["forward"] == pytest.approx(9000)


def test_the_rank_with_the_most_work_is_named():
    assert "Rank 3 has the most work of its own, 73.0 ms a step" in ranks.draw(run(ranks=4)).says


def test_of_very_many_ranks_some_are_shown_and_the_table_has_all():
    chart = ranks.draw(run(ranks=100))
    shown = {row["rank"] for row in chart.spec["layer"][0]["data"]["values"]}
    assert len(shown) == ranks.MOST
    assert {0, 99} <= shown
    assert f"Of 100 ranks, {ranks.MOST} are shown" in chart.says
    assert len(chart.table.rows) == 100


@pytest.mark.parametrize("windows", [[], [Window(step=1, steps=1, ranks=[{}, {}])]])
def test_without_measurements_there_is_no_chart(windows):
    assert ranks.draw(run(windows=windows)) is None


def test_a_single_rank_needs_no_chart():
    assert ranks.draw(run(ranks=1)) is None


def test_a_rank_that_measured_nothing_is_left_blank():
    silent = Window(step=1, steps=1, ranks=[{"step": 0.1, "forward": 0.1}, {}])
    assert ranks.draw(run(windows=[silent])).table.rows[1][1:] == [None, None]


def test_ranks_of_a_pipeline_say_their_stage_and_their_bubble():
    chart = ranks.draw(pipeline_run())
    assert chart.spec["params"][0]["value"][2] == "rank 2 · stage 1"
    bubbles = [row["ms"] for row in chart.spec["layer"][0]["data"]["values"] if row["kind"] == "bubble"]
    assert bubbles == [5, 5, 10, 10]
    assert "bubble of the pipeline" in [meaning for _, meaning in chart.legend]
    assert dict(zip(chart.table.columns, chart.table.rows[3], strict=True))["sent to neighbouring stages (MB)"] == 2
    assert "bubble of the pipeline" not in [meaning for _, meaning in ranks.draw(run()).legend]
