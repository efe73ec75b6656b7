"""The meter against a clock that the test sets: every quantity of a step is exact."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from trainer.overlap.meter import SUMS, Meter, PastBucket, PastSpan


class SetClock:
    """A clock that stands where it is put; marks later than `reached` have not passed yet."""

    def __init__(self) -> None:
        self.now = 0.0
        self.released = 0
        self.reached = float("inf")

    def mark(self) -> float:
        return self.now

    def passed(self, mark: float) -> bool:
        return mark <= self.reached

    def between(self, start: float, end: float) -> float:
        return end - start

    def moment(self, mark: float) -> float:
        return mark + 1000

    def release(self, mark: float) -> None:
        self.released += 1

    def anchor(self) -> None:
        """This clock is the host's, an epoch later."""


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def meter(clock: SetClock) -> Meter:
    return Meter(clock)


def work(meter: Meter, clock: SetClock, lane: str, start: float, end: float, bytes: float = 0.0) -> None:
    """A span from one time to another."""
    clock.now = start
    span = meter.begin(lane)
    span.bytes = bytes
    clock.now = end
    span.end = clock.mark()


@contextlib.contextmanager
def step(meter: Meter, clock: SetClock, start: float, end: float) -> Iterator[None]:
    clock.now = start
    meter.begin_step()
    yield
    clock.now = end
    meter.end_step()


def measure(meter: Meter, clock: SetClock, start: float, end: float, *spans: tuple) -> dict[str, float]:
    """The quantities of one step with these spans of work."""
    with step(meter, clock, start, end):
        for span in spans:
            work(meter, clock, *span)
    (measured,) = meter.read()
    return measured.sums


def test_a_step_with_half_of_its_communication_hidden(meter: Meter, clock: SetClock):
    measured = measure(
        meter,
        clock,
        100,
        130,
        ("data", 100, 101),
        ("forward", 101, 105),
        ("backward", 105, 115),
        ("comm", 110, 114, 64.0),
        ("comm", 113, 120, 16.0),
        ("optimizer", 120, 122),
    )
    assert measured == {
        "step": 30,
        "data": 1,
        "forward": 4,
        "backward": 10,
        "optimizer": 2,
        "comm": 10,
        "exchange": 10,
        "exposed": 5,
        "tail": 5,
        "await_activations": 0,
        "await_gradients": 0,
        "bytes": 80,
        "stage_bytes": 0,
        "shared": 0,
        "shared_wait": 0,
        "shared_bytes": 0,
    }
    assert set(measured) == set(SUMS)


def test_a_step_without_communication_exposes_nothing(meter: Meter, clock: SetClock):
    measured = measure(meter, clock, 0, 10, ("forward", 1, 4), ("backward", 4, 9))
    assert (measured["comm"], measured["exposed"], measured["tail"], measured["bytes"]) == (0, 0, 0, 0)


def test_communication_that_ends_within_the_backward_pass_has_no_tail(meter: Meter, clock: SetClock):
    measured = measure(meter, clock, 0, 10, ("backward", 1, 9), ("comm", 2, 8))
    assert (measured["comm"], measured["exposed"], measured["tail"]) == (6, 0, 0)


def test_reading_data_hides_nothing_but_the_optimizer_does(meter: Meter, clock: SetClock):
    measured = measure(meter, clock, 0, 10, ("data", 0, 3), ("optimizer", 5, 7), ("comm", 1, 9))
    assert measured["exposed"] == 6


def test_spans_of_one_lane_that_overlap_count_once(meter: Meter, clock: SetClock):
    measured = measure(meter, clock, 0, 10, ("forward", 0, 4), ("forward", 2, 6), ("comm", 1, 3), ("comm", 2, 9))
    assert (measured["forward"], measured["comm"], measured["exposed"]) == (6, 8, 3)


def test_a_backward_pass_that_waits_for_its_last_buckets_is_clipped_where_the_gradients_were_ready(
    meter: Meter, clock: SetClock
):
    with step(meter, clock, 0, 20):
        work(meter, clock, "forward", 0, 4)
        with meter.span("backward"):
            work(meter, clock, "comm", 6, 12)
            clock.now = 10
            meter.gradients_ready()
            work(meter, clock, "comm", 10, 18)
    (past,) = meter.read()
    measured = past.sums
    assert measured["backward"] == 6
    assert PastSpan("wait", "gradients", 10, 18, 0, 0) in past.spans
    assert (measured["comm"], measured["exposed"], measured["tail"]) == (12, 8, 8)


def test_only_the_backward_pass_in_which_the_gradients_were_ready_is_clipped(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 20):
        work(meter, clock, "backward", 1, 3)
        with meter.span("backward"):
            clock.now = 7
            meter.gradients_ready()
            clock.now = 9
    assert meter.read()[0].sums["backward"] == 2 + 4


def test_a_mark_that_has_not_passed_holds_its_step_and_those_after_it_back(meter: Meter, clock: SetClock):
    clock.reached = 5
    for start in (0, 10):
        with step(meter, clock, start, start + 4):
            work(meter, clock, "comm", start + 1, start + 8)
    assert meter.read() == []
    clock.reached = 8
    assert [measured.sums["comm"] for measured in meter.read()] == [3]
    clock.reached = 20
    assert [measured.sums["comm"] for measured in meter.read()] == [3]
    assert meter.read() == []


def test_a_span_that_has_not_ended_holds_its_step_back(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 4):
        clock.now = 1
        late = meter.begin("comm")
    with step(meter, clock, 4, 6):
        pass
    assert meter.read() == []
    late.end = 5.0
    assert [(measured.sums["step"], measured.sums["comm"]) for measured in meter.read()] == [(4, 3), (2, 1)]


def test_a_step_that_is_open_is_not_read(meter: Meter, clock: SetClock):
    meter.begin_step()
    work(meter, clock, "forward", 0, 1)
    assert meter.read() == []


def test_a_span_is_measured_although_its_body_fails(meter: Meter, clock: SetClock):
    def fail() -> None:
        clock.now = 3
        raise RuntimeError("out of memory")

    with step(meter, clock, 0, 5), pytest.raises(RuntimeError, match="out of memory"), meter.span("forward"):
        fail()
    assert meter.read()[0].sums["forward"] == 3


def test_spans_may_begin_and_end_in_other_threads(meter: Meter, clock: SetClock):
    spans, barrier = [], threading.Barrier(8)

    def begin() -> None:
        barrier.wait()
        for _ in range(100):
            span = meter.begin("comm")
            span.bytes = 1.0
            spans.append(span)

    def end(mine: list) -> None:
        for span in mine:
            span.end = 7.0

    def all_of(threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with step(meter, clock, 0, 10):
        clock.now = 2
        all_of([threading.Thread(target=begin) for _ in range(8)])
    all_of([threading.Thread(target=end, args=(spans[first::2],)) for first in (0, 1)])
    (past,) = meter.read()
    measured = past.sums
    assert (measured["bytes"], measured["comm"]) == (800, 5)


def test_each_step_has_its_own_spans(meter: Meter, clock: SetClock):
    lengths = [measure(meter, clock, start, start + 5, ("comm", start, start + 1 + start / 10)) for start in (0, 10)]
    assert [measured["comm"] for measured in lengths] == [1, 2]


def test_a_bucket_that_outlasts_its_step_is_communication_of_both_steps(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 10):
        work(meter, clock, "backward", 2, 9)
        clock.now = 8
        bucket = meter.begin("comm", "bucket 0")
        bucket.size = bucket.bytes = 64.0
    with step(meter, clock, 11, 20):
        work(meter, clock, "forward", 12, 16)
        clock.now = 15
        bucket.end = clock.mark()
    first, second = meter.read()
    assert PastSpan("comm", "bucket 0", 8, 10, 64, 64) in first.spans
    assert first.buckets == [PastBucket(0, 8, 15)]
    assert (first.sums["comm"], first.sums["exposed"], first.sums["bytes"]) == (2, 1, 64)
    # From 11, where the second step begins, to 15; the forward pass hides it from 12 on.
    assert PastSpan("comm", "bucket 0", 0, 4, 0, 0) in second.spans
    assert second.buckets == []
    assert (second.sums["comm"], second.sums["exposed"], second.sums["bytes"]) == (4, 1, 0)


def test_a_pipelines_waits_and_messages_are_summed_and_hide_nothing(meter: Meter, clock: SetClock):
    measured = measure(
        meter,
        clock,
        0,
        20,
        ("await_activations", 0, 3),
        ("forward", 3, 5),
        ("send_onward", 5, 8, 64.0),
        ("await_gradients", 5, 9),
        ("comm", 7, 10, 16.0),
        ("backward", 9, 12),
        ("await_gradients", 12, 13),
        ("send_back", 13, 14, 32.0),
    )
    assert (measured["await_activations"], measured["await_gradients"]) == (3, 5)
    assert (measured["stage_bytes"], measured["bytes"]) == (96, 16)
    assert (measured["forward"], measured["exposed"]) == (2, 2)


def test_a_message_that_outlasts_its_step_is_sent_once(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 10):
        clock.now = 9
        late = meter.begin("send_onward", "activations of micro-batch 3 to stage 1")
        late.bytes = late.size = 64.0
    with step(meter, clock, 10, 20):
        clock.now = 12
        late.end = clock.mark()
    first, second = meter.read()
    assert [past.sums["stage_bytes"] for past in (first, second)] == [64, 0]
    assert PastSpan("send_onward", late.name, 0, 2, 0, 0) in second.spans


def test_what_stages_send_each_other_between_steps_is_no_part_of_one(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 10):
        pass
    work(meter, clock, "send_onward", 11, 14, 64.0)
    with step(meter, clock, 12, 20):
        pass
    assert [past.sums["stage_bytes"] for past in meter.read()] == [0, 0]


def test_what_ends_between_two_steps_is_in_neither_of_the_later_ones(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 10):
        work(meter, clock, "comm", 8, 11)
    with step(meter, clock, 12, 20):
        pass
    assert [past.sums["comm"] for past in meter.read()] == [2, 0]


def test_what_begins_between_two_steps_is_in_the_later_one_with_its_bytes(meter: Meter, clock: SetClock):
    with step(meter, clock, 0, 10):
        pass
    work(meter, clock, "comm", 11, 14, 64.0)
    work(meter, clock, "comm", 11, 12, 32.0)
    with step(meter, clock, 12, 20):
        pass
    first, second = meter.read()
    assert (first.sums["comm"], first.sums["bytes"]) == (0, 0)
    assert (second.sums["comm"], second.sums["bytes"]) == (2, 96)


def test_every_mark_of_a_step_is_given_back_once_it_is_read(meter: Meter, clock: SetClock):
    for start in (0, 10):
        with step(meter, clock, start, start + 10):
            work(meter, clock, "forward", start, start + 2)
            meter.gradients_ready()
    meter.read()
    # Of two steps: a start and an end each of the step and its span, and where the gradients were ready; the second
    # step's start is needed for what might outlast it.
    assert clock.released == 2 * 5 - 1
