from __future__ import annotations

import pytest

from tests.doctor.scene import Queue, config, over
from trainer.doctor.rules.tail import look

GIGABIT = Queue((200, 600), start_ms=0.5, mb_per_s=117)


def test_a_long_last_bucket_is_told_a_smaller_size():
    finding = look(over(GIGABIT, [(60, 350), (37.5, 600)], config=config(parallel__data__bucket_cap_mb=60)))
    assert finding is not None
    assert finding[:3] == (
        "The last bucket arrives 625 ms after the backward pass",
        "It is the last of 2, holds 37.5 MiB and travels for 337 ms at 0.936 Gbit/s; 51 % of the step is exposed"
        " communication. In 10 buckets of 10 MiB, sent beside a backward pass of 400 ms, the last one would arrive"
        " 504 ms after it.",
        "parallel.data.bucket_cap_mb=10",
    )
    assert finding.gain_ms == pytest.approx(121, abs=1)


def test_a_tail_that_no_size_shortens_is_left_alone():
    assert look(over(GIGABIT, [(5, 200 + 20 * (number + 1)) for number in range(20)])) is None


def test_tensors_larger_than_the_cap_are_left_alone():
    assert look(over(GIGABIT, [(60, 350), (37.5, 600)], config=config(parallel__data__bucket_cap_mb=1))) is None


def test_no_more_than_what_is_exposed_can_be_gained():
    finding = look(
        over(
            GIGABIT,
            [(60, 350), (37.5, 600)],
            changes={"exposed": 90},
            config=config(parallel__data__bucket_cap_mb=60),
        )
    )
    assert finding is not None
    assert finding.gain_ms == pytest.approx(90)
