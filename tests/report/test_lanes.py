"""Which ranks are shown, and where their bars lie."""

from __future__ import annotations

import pytest

from tests.report.scene import step
from trainer.report import lanes, spans


@pytest.mark.parametrize("ranks", [1, 2, lanes.MOST])
def test_few_ranks_are_all_shown(ranks):
    assert lanes.chosen([1.0] * ranks) == list(range(ranks))


def test_of_many_the_fastest_and_the_slowest_are_among_those_shown():
    work = [float((rank * 37) % 100) for rank in range(100)]
    shown = lanes.chosen(work)
    assert len(shown) == lanes.FEW
    assert shown == sorted(set(shown))
    assert {work.index(min(work)), work.index(max(work))} <= set(shown)


def test_the_extremes_of_a_choice_are_named():
    timeline = [step(slower=0.1 * rank) for rank in range(20)]
    named = lanes.names(timeline, [0, 7, 19])
    assert named == ["rank 0 · fastest", "rank 7", "rank 19 · slowest"]
    assert lanes.names(timeline[:2], [0, 1]) == ["rank 0", "rank 1"]


def test_bars_of_a_rank_lie_in_its_lane_and_buckets_below_what_computes():
    bars = spans.bars([step(), step()], serial=False)
    rows = lanes.placed(bars, [0, 1], ["rank 0", "rank 1"])
    assert len(rows) == len(bars)
    for row, bar in zip(rows, bars, strict=True):
        assert bar.rank < row["y"] < row["y2"] < bar.rank + 1
    computes = max(row["y2"] for row in rows if row["kind"] == "forward" and row["y"] < 1)
    assert all(row["y"] > computes for row in rows if row["kind"] == "comm")


def test_ranks_that_are_not_shown_have_no_bars():
    rows = lanes.placed(spans.bars([step(), step()], serial=False), [1], ["rank 1"])
    assert {row["said"].split(":")[0] for row in rows} == {"rank 1"}


def test_a_queue_ends_where_its_bucket_begins():
    timeline = [[event._replace(start_ms=30.0) if event.name == "bucket 1" else event for event in step()]]
    (strip,) = lanes.queues(spans.bars(timeline, serial=True), [0])
    assert (strip["start"], strip["end"]) == (30.0, 50.0)
