from __future__ import annotations

import pytest

from tests.doctor.scene import Queue, config, over
from trainer.doctor.rules.launch_bound import look

# One transfer after another, as in these scenes, where Gloo would carry two at once.
CUDA = config(place__device="cuda", parallel__data__bucket_cap_mb=0.1)
# 0.1 and 0.7 MiB by turns, evenly over the backward pass.
SMALL = [(0.1 + 0.6 * (number % 2), 202 + 2 * number) for number in range(200)]


def test_buckets_whose_start_costs_most_are_told_a_larger_size():
    queue = Queue((200, 600), start_ms=3, mb_per_s=1000)
    finding = look(over(queue, SMALL, config=CUDA))
    assert finding is not None
    assert finding[:3] == (
        "Starting 200 buckets takes 88 % of the communication",
        "Over all recorded buckets, starting one takes 3.0 ms and its bytes travel at 8 Gbit/s; the mean bucket of"
        " 410 KiB gets 0.981 Gbit/s out of that. 4 buckets of 25 MiB would leave 12.9 ms after the backward pass"
        " instead of 286 ms.",
        "parallel.data.bucket_cap_mb=25",
    )
    assert finding.gain_ms == pytest.approx(273, abs=1)


def test_small_buckets_that_start_quickly_are_left_alone():
    assert look(over(Queue((200, 600), start_ms=0.1, mb_per_s=1000), SMALL, config=CUDA)) is None


def test_slow_bytes_are_no_slow_start():
    assert look(over(Queue((200, 600), start_ms=0.1, mb_per_s=50), SMALL, config=CUDA)) is None


def test_sizes_that_are_alike_tell_nothing_about_starting():
    alike = [(0.4, ready) for _, ready in SMALL]
    assert look(over(Queue((200, 600), start_ms=3, mb_per_s=1000), alike, config=CUDA)) is None
