"""What becomes of the spans of a step: who has the link when, and at what rate."""

from __future__ import annotations

import itertools

import pytest

from tests.report.scene import pipeline, step
from trainer.overlap.evidence import Event
from trainer.report import spans


def comm(name: str, start: float, end: float, size: float = 10e6, sent: float = 10e6) -> Event:
    return Event("comm", name, start, end, size, sent)


def of_kind(bars: list[spans.Bar], kind: str) -> list[spans.Bar]:
    return [bar for bar in bars if bar.kind == kind]


def test_every_span_is_a_bar_and_every_bucket_moves_once():
    bars = spans.bars([step(), step()], serial=False)
    kinds = [bar.kind for bar in bars]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "data": 2, "forward": 2, "backward": 2, "wait": 2, "optimizer": 2, "comm": 4, "moves": 4,
    }  # fmt: skip


def test_where_buckets_travel_one_by_one_the_second_waits_in_the_queue():
    first, second = of_kind(spans.bars([[comm("a", 0, 10), comm("b", 4, 14)]], serial=True), "comm")
    assert (first.start_ms, first.queued_ms, first.row) == (0, 0, 0)
    assert (second.start_ms, second.queued_ms, second.row) == (10, 6, 0)
    # 10 MB in the 4 ms that it had the link.
    assert second.gbit_per_s == pytest.approx(20)


def test_where_they_may_travel_side_by_side_they_lie_side_by_side():
    events = [comm("a", 0, 10), comm("b", 4, 14), comm("c", 11, 20)]
    first, second, third = of_kind(spans.bars([events], serial=False), "comm")
    assert [first.row, second.row, third.row] == [0, 1, 0]
    assert [bar.queued_ms for bar in (first, second, third)] == [0, 0, 0]
    assert second.gbit_per_s == pytest.approx(8)


def test_more_at_once_than_there_are_rows_are_shown_as_a_queue():
    found = of_kind(spans.bars([[comm(str(k), k, 10 + k) for k in range(6)]], serial=False), "comm")
    assert {bar.row for bar in found} == {0}
    assert all(left.end_ms <= right.start_ms for left, right in itertools.pairwise(found))


def test_a_bucket_moves_when_the_last_rank_has_come_to_it():
    moves = of_kind(spans.bars([[comm("a", 0, 10)], [comm("a", 6, 10)]], serial=False), "moves")
    assert [(bar.rank, bar.start_ms, bar.end_ms) for bar in moves] == [(0, 6, 10), (1, 6, 10)]


def test_ranks_with_different_buckets_are_not_compared():
    moves = of_kind(spans.bars([[comm("a", 0, 10)], [comm("a", 6, 10), comm("b", 10, 12)]], serial=False), "moves")
    assert [bar.start_ms for bar in moves] == [0, 6, 10]


def test_exchanges_are_when_bytes_move_and_make_the_rate():
    events = [
        comm("bucket 0", 0, 10, sent=1e6),
        Event("exchange", "gather", 2, 4, 0, 1e6),
        comm("bucket 1", 3, 20, sent=1e6),
        Event("exchange", "gather", 12, 13, 0, 1e6),
    ]
    bars = spans.bars([events], serial=False)
    first, second = of_kind(bars, "comm")
    assert (first.gbit_per_s, second.gbit_per_s) == (pytest.approx(4), pytest.approx(8))
    assert second.start_ms == 10
    assert [bar.name for bar in of_kind(bars, "moves")] == ["bucket 0, gather", "bucket 1, gather"]


def test_a_bucket_that_sends_nothing_has_no_rate():
    (bucket,) = of_kind(spans.bars([[comm("a", 0, 10, sent=0.0)]], serial=True), "comm")
    assert bucket.gbit_per_s is None
    assert spans.label(bucket) == "10.0 MB"


def test_labels_give_size_and_rate_and_what_compression_made_of_it():
    plain, small = of_kind(spans.bars([[comm("a", 0, 10), comm("b", 10, 20, 5e6, 50e3)]], serial=True), "comm")
    assert spans.label(plain) == "10.0 MB · 8.0 Gbit/s"
    assert spans.label(small) == "5.00 MB → 50.0 kB · 40 Mbit/s"
    assert spans.label(small._replace(size=0.0)) == ""


def test_exposed_is_communication_beside_which_nothing_computes():
    assert spans.exposed(step()) == [(60.0, 70.0)]


def test_work_is_what_a_rank_does_on_its_own():
    assert spans.work_ms(step()) == 70.0


def test_waits_for_a_neighbouring_stage_are_bubbles_and_not_work():
    bars = spans.bars(pipeline(), serial=False)
    first, *_ = of_kind(bars, "bubble")
    assert (first.rank, first.name, first.start_ms, first.end_ms) == (0, "gradients: stage 0, micro-batch 0", 10, 15)
    assert spans.said(first) == "waits for gradients: stage 0, micro-batch 0\n10.0 to 15.0 ms, 5.00 ms"
    assert spans.work_ms(pipeline()[0]) == 2 + 2 * (8 + 15)


def test_a_pass_is_named_by_its_micro_batch():
    forward = spans.Bar(0, "forward", "stage 1, micro-batch 3", 0.0, 1.0)
    assert [spans.brief(bar) for bar in (forward, forward._replace(kind="backward"))] == ["F3", "B3"]
    assert spans.what(forward) == "forward: stage 1, micro-batch 3"
    assert spans.brief(spans.Bar(0, "forward", "", 0.0, 1.0)) == ""
    weights = Event("backward", "weights of stage 1, micro-batch 3", 0, 5, 0, 0)
    (bar,) = spans.bars([[weights]], serial=False)
    assert (bar.kind, spans.brief(bar), spans.what(bar)) == (
        "weights",
        "W3",
        "backward: weights of stage 1, micro-batch 3",
    )


def test_messages_of_one_direction_go_one_by_one_and_have_a_rate():
    sent = [bar for bar in of_kind(spans.bars(pipeline(), serial=False), "send") if bar.rank == 0]
    assert [(bar.start_ms, bar.end_ms, bar.queued_ms) for bar in sent] == [(11, 13, 0), (13, 16, 1)]
    assert [bar.gbit_per_s for bar in sent] == [pytest.approx(4), pytest.approx(8 / 3)]
    assert spans.said(sent[1]) == (
        "activations of micro-batch 1 to stage 1\n13.0 to 16.0 ms, 3.00 ms\n1.00 MB · 2.7 Gbit/s\n"
        "queued behind others for 1.00 ms before"
    )


def test_messages_of_two_directions_lie_in_two_rows():
    events = [
        Event("send_back", "gradients of micro-batch 0 to stage 0", 0, 9, 1e6, 1e6),
        Event("send_onward", "activations of micro-batch 1 to stage 2", 2, 9, 1e6, 1e6),
    ]
    sent = of_kind(spans.bars([events], serial=False), "send")
    assert sorted((bar.name.split()[0], bar.row, bar.queued_ms) for bar in sent) == [
        ("activations", 0, 0),
        ("gradients", 1, 0),
    ]


def test_ranks_of_one_stage_are_compared_with_each_other():
    moves = of_kind(spans.bars(pipeline(), serial=False), "moves")
    assert [(bar.rank, bar.start_ms) for bar in moves] == [(0, 62), (1, 62), (2, 72), (2, 73), (3, 72), (3, 73)]
