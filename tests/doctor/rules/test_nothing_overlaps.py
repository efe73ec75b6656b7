"""Why nothing overlaps, in the order in which causes are told apart."""

from __future__ import annotations

import pytest

from tests.doctor.scene import Queue, config, over, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.nothing_overlaps import look

GIGABIT = Queue((200, 600), start_ms=0.5, mb_per_s=117)


def test_a_single_bucket_is_told_a_better_size():
    finding = look(over(GIGABIT, [(97.5, 600)], config=config(parallel__data__bucket_cap_mb=200)))
    assert finding is not None
    assert finding._replace(gain_ms=None) == Finding(
        "Nothing overlaps: all gradients travel in one bucket",
        "parallel.data.bucket_cap_mb=200 is more than the gradient's 97.5 MiB, so it leaves when the backward pass of"
        " 400 ms is over. 874 ms of 874 ms of communication are exposed, in a step of 1,484 ms. In 20 buckets of 5 MiB,"
        " at the measured rate, the last one would arrive 504 ms after the backward pass instead of 874 ms.",
        "parallel.data.bucket_cap_mb=5",
        None,
    )
    assert finding.gain_ms == pytest.approx(874.3 - 504.3, abs=0.1)


def test_a_gradient_below_the_default_cap_is_told_so():
    finding = look(over(Queue((2, 7), 0.05, 117), [(0.9, 7)], config=config(parallel__data__bucket_cap_mb=None)))
    assert finding is not None
    assert finding.title == "Nothing overlaps: the gradient of 922 KiB travels in one bucket"
    assert finding.advice == "batch.size=128"


def test_a_single_tensor_larger_than_the_cap_is_not_told_to_be_cut():
    finding = look(over(GIGABIT, [(97.5, 600)]))
    assert finding is not None
    assert finding.title == "Nothing overlaps: one tensor holds most of the gradient"
    assert "parallel.data.bucket_cap_mb=" not in finding.advice


def test_accumulation_leaves_the_last_micro_batch_alone_with_everything():
    queue, buckets = Queue((100, 140), start_ms=0.5, mb_per_s=250), [(25, 110), (25, 120), (25, 130), (22.5, 140)]
    finding = look(over(queue, buckets, config=config(batch__microbatches=8)))
    assert finding is not None
    assert finding[:3] == (
        "Nothing overlaps: gradients travel in the last micro-batch only",
        "8 micro-batches are accumulated before one reduction, which can hide in the last one's backward pass of"
        " 40.0 ms and in nothing before it. 381 ms of 411 ms of communication are exposed, in a step of 531 ms. Fewer"
        " and larger micro-batches need more memory.",
        "batch.microbatches=4",
    )
    assert finding.gain_ms == pytest.approx(30)


def test_a_backward_pass_that_is_too_short_is_told_to_send_less():
    queue, buckets = Queue((10, 20), start_ms=0.5, mb_per_s=100), [(10, 12), (10, 14), (10, 16), (10, 20)]
    finding = look(over(queue, buckets))
    assert finding is not None
    assert finding[:3] == (
        "Nothing overlaps: the backward pass is too short for what travels",
        "The backward pass takes 10.0 ms, the buckets travel for 421 ms. 413 ms of 421 ms of communication are exposed,"
        " in a step of 443 ms. Fewer bytes are what is left.",
        "comm=topk",
    )
    assert finding.gain_ms == pytest.approx(375, abs=1)
    # A loss scale forbids residuals, and the run has the one hook that is left.
    left = look(over(queue, buckets, config=config(precision="fp16", comm___target_="trainer.comm.bf16.BF16")))
    assert left is not None
    assert (left.advice, left.gain_ms) == ("batch.size=128", None)


def test_a_late_gradient_in_the_first_bucket_holds_back_the_others():
    queue, buckets = Queue((200, 600), start_ms=0.5, mb_per_s=200), [(50, 590), (50, 600)]
    finding = look(over(queue, buckets, config=config(parallel__data__find_unused_parameters=True)))
    assert finding == Finding(
        "Nothing overlaps: the first bucket leaves only at the end of the backward pass",
        "The first of 2 buckets was full after 98 % of the backward pass. 515 ms of 525 ms of communication are"
        " exposed, in a step of 1,125 ms. With find_unused_parameters buckets keep the order in which layers were"
        " made, not that in which gradients come, and one late gradient holds back every bucket behind its own.",
        "parallel.data.find_unused_parameters=false",
        None,
    )
    smaller = look(over(queue, buckets))
    assert smaller is not None
    assert smaller.advice == "parallel.data.bucket_cap_mb=5"


def test_without_a_recorded_step_the_cause_stays_open():
    assert look(run(windows(sums(exposed=60), sums(exposed=58)))) == Finding(
        "Nothing overlaps",
        "59.0 ms of 60.0 ms of communication are exposed, in a step of 100 ms. No recorded step tells why.",
        "log.every=1",
        None,
    )


def test_what_overlaps_waits_for_a_rank_or_is_alone_is_left_alone():
    assert look(over(GIGABIT, [(25, 300), (25, 400), (25, 500), (22.5, 600)])) is None
    assert look(over(GIGABIT, [(97.5, 600)], changes={"peers": 700})) is None
    assert look(run(windows(sums(exposed=60)))) is None
    assert look(run(windows(sums(exposed=1, comm=1), sums(exposed=1, comm=1)))) is None
