"""Clocks of stages on different machines, told by what they send each other."""

from __future__ import annotations

import pytest
import torch

from tests.overlap.past import past_step
from trainer.overlap.alignment import across, messages, offset


def onward(microbatch: int, at: float, ahead: float = 0.0) -> list[float]:
    """The first stage sends to the second at `at`."""
    return [7, 0, 1, microbatch, at + ahead]


def arrived(microbatch: int, at: float, ahead: float = 0.0) -> list[float]:
    """The second stage has waited for it until `at`."""
    return [7, 2, 1, microbatch, at + ahead]


def back(microbatch: int, at: float, ahead: float = 0.0) -> list[float]:
    return [7, 1, 0, microbatch, at + ahead]


def returned(microbatch: int, at: float, ahead: float = 0.0) -> list[float]:
    return [7, 3, 0, microbatch, at + ahead]


def stages(ahead: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two micro-batches there and back, each fastest in 2 s; the second stage's clock is `ahead`."""
    first = [onward(0, 0), onward(1, 10), returned(0, 22), returned(1, 45)]
    second = [arrived(0, 2, ahead), arrived(1, 15, ahead), back(0, 20, ahead), back(1, 40, ahead)]
    return torch.tensor(first, dtype=torch.float64), torch.tensor(second, dtype=torch.float64)


def test_the_fastest_message_each_way_tells_the_clocks():
    one, other = stages(1000)
    assert offset(one, other) == 1000
    assert offset(other, one) == -1000


def test_messages_of_one_direction_tell_nothing():
    one, other = stages(1000)
    assert offset(one[:2], other[:2]) is None
    assert offset(one[:0], other) is None


def test_stages_on_one_machine_need_no_messages():
    ahead = torch.zeros(4, dtype=torch.float64)
    assert across([[0, 1], [2, 3]], [7] * 4, ahead, lambda: pytest.fail("asked for messages")).tolist() == [0] * 4


def test_a_stage_is_joined_by_any_of_its_ranks_that_shares_a_machine():
    # Ranks 0 and 2 are on one machine, 1 and 3 on another whose clock is 50 s ahead; the buckets told so in each part.
    ahead = torch.tensor([0, 50, 0, 50.0])
    assert across([[0, 1], [2, 3]], [7, 8, 7, 8], ahead, list).tolist() == [0, 50, 0, 50]
    assert across([[0, 1], [3, 2]], [7, 8, 7, 8], torch.tensor([0, 50, -50, 0.0]), list).tolist() == [0, 50, 0, 50]


def test_each_stage_on_its_own_machine_is_joined_to_the_one_before_by_messages():
    one, other = stages(1000)
    # The third stage sends to the second as the second does to the first, with a clock 30 s ahead of the second's.
    after = [[step, lane, stage + 1, m, moment + 1030] for step, lane, stage, m, moment in stages(0)[1].tolist()]
    sends = [[step, lane, stage + 1, m, moment + 1000] for step, lane, stage, m, moment in stages(0)[0].tolist()]
    middle = torch.cat([other, torch.tensor(sends, dtype=torch.float64)])
    everyone = [one, middle, torch.tensor(after, dtype=torch.float64)]
    ahead = across([[0], [1], [2]], [7, 8, 9], torch.zeros(3, dtype=torch.float64), lambda: everyone)
    assert ahead.tolist() == [0, 1000, 1030]


def test_without_messages_stages_are_left_as_they_are():
    nothing = [torch.zeros(0, 5, dtype=torch.float64)] * 2
    assert across([[0], [1]], [7, 8], torch.zeros(2), lambda: nothing).tolist() == [0, 0]


def test_messages_are_read_from_the_steps_on_the_clock_of_the_host():
    step = past_step(
        100.0,
        10.0,
        ("await_activations", 0, 2, "stage 1, micro-batch 4", 0.0, 0.0),
        ("forward", 2, 5, "stage 1, micro-batch 4", 0.0, 0.0),
        ("send_onward", 5, 6, "activations of micro-batch 4 to stage 2", 64.0, 64.0),
        ("send_onward", 0, 1, "activations of micro-batch 3 to stage 2", 0.0, 0.0),
        ("comm", 6, 7, "bucket 0", 64.0, 64.0),
    )
    assert messages([step]).tolist() == [[1, 2, 1, 4, 102], [1, 0, 2, 4, 105]]
    assert messages([]).shape == (0, 5)
