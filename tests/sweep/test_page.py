"""The page of a sweep: its charts compile, and its table leads to the runs."""

from __future__ import annotations

import html

import pytest
import vl_convert

from tests.sweep.scene import result
from trainer.report import palette
from trainer.sweep import charts, page
from trainer.sweep.options import Sweep
from trainer.sweep.ranking import rank

HOSTILE = "</script><script>alert(1)</script>"


def grid(*keys: str, size: int = 3):
    """Runs that sweep the keys over `size` values each, the last of them failed."""
    runs: list[list[str]] = [[]]
    for key in keys:
        runs = [[*run, f"{key}={value}"] for run in runs for value in range(size)]
    results = {str(at): result(*run, value=float(at)) for at, run in enumerate(runs)}
    last = list(results)[-1]
    return {**results, last: result(*runs[-1], status="failed", reason="rank 0 failed")}


def svg(chart):
    return vl_convert.vegalite_to_svg(palette.fixed({**chart.spec, "width": 600}))


def test_one_key_is_bars():
    chart = charts.draw(rank(grid("lr", size=4), Sweep()))
    assert chart.spec["mark"]["type"] == "bar"
    assert [row["value"] for row in chart.spec["data"]["values"]] == [2.0, 1.0, 0.0]
    assert svg(chart).count('fill="#c2480f"') == 1


def test_two_keys_are_a_heat_map_with_a_cell_for_every_run():
    chart = charts.draw(rank(grid("bucket", "comm"), Sweep()))
    cells = {(row["x"], row["y"]): (row["label"], row["good"]) for row in chart.spec["data"]["values"]}
    assert len(cells) == 9
    assert cells["2", "1"] == ("7.000", 0.62)
    assert cells["0", "0"] == ("0", 0.12)
    assert cells["2", "2"] == ("failed", 0.0)
    drawn = svg(chart)
    assert ">failed</text>" in drawn
    assert drawn.count('stroke="#c2480f"') == 1


def test_the_darkest_cell_is_the_best_where_less_is_better():
    chart = charts.draw(rank(grid("bucket", "comm"), Sweep(objective="speed/step_ms")))
    assert next(row["good"] for row in chart.spec["data"]["values"] if row["best"]) == 0.62
    assert next(row["label"] for row in chart.spec["data"]["values"] if row["best"]) == "0"


def test_more_keys_are_lines_through_all_of_them_to_the_value():
    chart = charts.draw(rank(grid("bucket", "comm", "sync", size=2), Sweep()))
    points = chart.spec["layer"][0]["data"]["values"]
    assert {point["axis"] for point in points} == {"bucket", "comm", "sync", "speed/samples_per_s"}
    assert len(points) == 7 * 4
    # The order of the axes is the order in which a line goes.
    assert [point["axis"] for point in points if point["best"]] == ["bucket", "comm", "sync", "speed/samples_per_s"]
    assert svg(chart).count("<path") > 7


def test_two_keys_of_which_few_pairs_were_tried_are_lines_too():
    results = {str(at): result(f"lr={at / 7}", f"momentum={at}", value=float(at)) for at in range(14)}
    chart = charts.draw(rank(results, Sweep()))
    labels = [mark["label"] for mark in chart.spec["layer"][2]["data"]["values"] if mark["axis"] == "lr"]
    assert labels == ["0", "0.4643", "0.9286", "1.393", "1.857"]
    assert svg(chart)


def test_numbers_are_ordered_by_their_size():
    results = {str(at): result(f"bucket={mb}", value=1.0) for at, mb in enumerate((25, 5, 100))}
    assert charts.draw(rank(results, Sweep())).spec["encoding"]["x"]["sort"] == ["5", "25", "100"]


@pytest.mark.parametrize("results", [{"0": result("seed=1", status="refused", reason="no")}, {}])
def test_without_a_value_there_is_a_table_and_no_chart(tmp_path, results):
    ranked = rank(results, Sweep())
    assert charts.draw(ranked) is None
    text = page.page(ranked, tmp_path)
    assert "<table>" in text
    assert "vegaEmbed" not in text


def test_runs_that_have_a_page_are_linked_to_it(tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "report.html").touch()
    path = page.write(rank(grid("bucket", "comm"), Sweep()), tmp_path)
    text = path.read_text()
    assert path == tmp_path / "sweep.html"
    assert text.count("<a href=") == 1
    assert '<a href="1/report.html">1</a>' in text
    assert "rank 0 failed" in text
    assert "The best speed/samples_per_s is 7.000, in run 7 with bucket=2 comm=1." in text
    assert "://" not in text.partition('<script type="text/plain"')[0]


def test_what_files_hold_is_text_and_never_code(tmp_path):
    results = {"0": result(f"name={HOSTILE}", value=1.0), "1": result("name=b", status="failed", reason=HOSTILE)}
    text = page.page(rank(results, Sweep()), tmp_path)
    assert HOSTILE not in text
    assert html.escape(HOSTILE) in text
