"""The picture of a schedule."""

from __future__ import annotations

from trainer.pipeline.grid import grid
from trainer.pipeline.schedules import SCHEDULES


def test_1f1b():
    assert grid(SCHEDULES["1f1b"](2, 1, 3)).splitlines() == [
        "rank 0 | F0 F1       B0--- F2 B1---    B2---",
        "rank 1 |    F0 B0--- F1 B1--- F2 B2---",
    ]


def test_a_split_backward_pass_and_several_stages_are_told_apart():
    assert grid(SCHEDULES["zero_bubble"](2, 1, 2)).splitlines() == [
        "rank 0 | F0 F1    I0 W0 I1 W1",
        "rank 1 |    F0 I0 F1 I1 W0 W1",
    ]
    assert grid(SCHEDULES["interleaved"](2, 2, 2)).splitlines()[0] == (
        "rank 0 | F0.0 F1.0 F0.1 F1.1           B0.1-----      B1.1----- B0.0----- B1.0-----"
    )
