"""A recorded step, as all ranks together did it."""

from __future__ import annotations

import math

from tests.doctor.scene import run, sums
from trainer.doctor.recorded import Transfer, recorded, travel_ms, typical
from trainer.overlap.evidence import Event, Window


def rank(ready: float, end: float, size: float = 8.0, backward: float = 20.0) -> list[Event]:
    return [
        Event("backward", "", 0, 5, 0, 0),
        Event("backward", "", 10, backward, 0, 0),
        Event("comm", "bucket 0", ready, end, size, size),
    ]


def window(number: int, step_ms: float, *ranks: list[Event]) -> Window:
    return Window(step=number, steps=1, ranks=[sums(step=step_ms)] * len(ranks), timeline=list(ranks))


def test_a_bucket_is_ready_with_the_last_rank_and_arrived_with_the_last():
    step = typical(recorded(run([window(1, 30, rank(12, 25), rank(15, 24, backward=22))])))
    assert step is not None
    assert step.buckets == [Transfer(8, 8, 15, 25)]
    assert (step.backward_start_ms, step.backward_end_ms, step.tail_ms) == (10, 22, 3)
    assert step.exchanges is step.buckets


def test_the_typical_is_nearest_to_the_median_without_the_first():
    windows = [window(n, ms, rank(12, end)) for n, (ms, end) in enumerate([(99, 90), (30, 25), (31, 26), (50, 45)])]
    step = typical(recorded(run(windows)))
    assert step is not None
    assert step.buckets[0].end_ms == 26
    assert len(recorded(run(windows))) == 3
    assert len(recorded(run(windows[:1]))) == 1


def test_a_step_that_ranks_tell_differently_is_passed_over():
    more = [*rank(12, 25), Event("comm", "bucket 1", 13, 26, 8, 8)]
    assert recorded(run([window(1, 30, rank(12, 25), more)])) == []


def test_spans_that_are_no_numbers_or_of_nothing_are_passed_over():
    assert recorded(run([window(1, 30, rank(12, math.nan))])) == []
    assert recorded(run([window(1, 30, rank(12, 25, size=0))])) == []
    assert recorded(run([window(1, 30, rank(12, 25, backward=math.inf))])) == []
    assert recorded(run([window(1, 30, [Event("comm", "bucket 0", 12, 25, 8, 8)])])) == []
    assert recorded(run([Window(step=1, steps=1, ranks=[], timeline=[])])) == []


def test_transfers_wait_for_their_turn_on_the_wire():
    transfers = [Transfer(1, 1, 0, 10), Transfer(1, 1, 5, 18), Transfer(1, 1, 6, 20), Transfer(1, 1, 30, 31)]
    assert travel_ms(transfers) == [10, 8, 2, 1]


def test_transfers_at_once_share_the_time():
    transfers = [Transfer(1, 1, 0, 10), Transfer(1, 1, 4, 11), Transfer(1, 1, 5, 14), Transfer(1, 1, 20, 21)]
    assert travel_ms(transfers, at_once=2) == [4 + 3, 3 + 0.5, 0.5 + 3, 1]
    assert travel_ms([]) == []
