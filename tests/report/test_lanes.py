"""Which ranks are shown, and where their bars lie."""

from __future__ import annotations

import pytest

from tests.report.scene import pipeline, step
from trainer.overlap.evidence import Event
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


def test_the_ranks_of_a_pipeline_lie_below_each_other_and_say_their_stages():
    assert lanes.shown(pipeline()) == [0, 2, 1, 3]
    assert lanes.names(pipeline(), [0, 2]) == ["rank 0 · stage 0", "rank 2 · stage 1"]
    assert lanes.called(5, (1, 3)) == "rank 5 · stages 1, 3"
    assert lanes.shown([step()] * 3) == [0, 1, 2]


def test_of_too_many_pipelines_the_one_with_the_most_work_is_shown():
    def rank(stage: int, end: float) -> list[Event]:
        return [Event("forward", f"stage {stage}, micro-batch 0", 0.0, end, 0.0, 0.0)]

    many = [rank(stage, 10.0 + (replica == 6)) for stage in range(2) for replica in range(10)]
    assert lanes.shown(many) == [6, 16]
    long = [rank(stage, 10.0) for stage in range(30)]
    shown = lanes.shown(long)
    assert len(shown) == lanes.FEW
    assert shown[0] == 0
    assert shown[-1] == 29
    assert shown == sorted(shown)


def test_messages_lie_below_the_buckets_of_their_rank():
    bars = spans.bars(pipeline(), serial=False)
    rows = lanes.placed(bars, [0, 2, 1, 3], ["a", "b", "c", "d"])
    of = {
        kind: [row for row in rows if row["kind"] == kind and row["said"].startswith("b")] for kind in spans_kinds(bars)
    }
    assert max(row["y2"] for row in of["comm"]) < min(row["y"] for row in of["send"])
    assert max(row["y2"] for row in of["send"]) < 2
    assert [row["label"] for row in of["forward"]] == ["F0", "F1"]
    assert [(row["label"], row["brief"]) for row in of["send"]] == [("gradients 0", "0"), ("gradients 1", "1")]


def test_a_pipeline_without_replicas_has_no_place_for_buckets():
    alone = [[event for event in events if event.lane != "comm"] for events in pipeline()]
    with_buckets, without = (lanes.height(spans.bars(timeline, serial=False)) for timeline in (pipeline(), alone))
    assert with_buckets - without == 2 * lanes.TRACK
    # What travels has its place in every other run, also where nothing did.
    assert lanes.height([]) == lanes.height(spans.bars([step()], serial=True))


def test_a_message_of_no_micro_batch_has_its_name():
    events = [Event("send_onward", "targets", 0, 9, 256.0, 256.0)]
    (row,) = lanes.placed(spans.bars([events], serial=True), [0], ["rank 0"])
    assert (row["label"], row["brief"]) == ("targets", "")


def test_where_a_rank_has_several_stages_a_pass_says_which():
    events = [Event("forward", f"stage {stage}, micro-batch 0", stage, stage + 1, 0.0, 0.0) for stage in (0, 2)]
    rows = lanes.placed(spans.bars([events], serial=True), [0], ["rank 0"])
    assert [(row["label"], row["brief"]) for row in rows] == [("F0 s0", "F0"), ("F0 s2", "F0")]


def spans_kinds(bars: list[spans.Bar]) -> set[str]:
    return {bar.kind for bar in bars}
