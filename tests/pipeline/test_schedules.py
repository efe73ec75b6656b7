"""Schedules are data: their bubbles follow the formulas, and none can deadlock."""

from __future__ import annotations

import itertools

import pytest

from trainer.pipeline.actions import Action, arrivals, in_flight
from trainer.pipeline.schedules import SCHEDULES
from trainer.pipeline.simulate import Costs, Deadlock, alike, bound, simulate

RANKS, MICROBATCHES = range(1, 9), range(1, 17)
SEVERAL = ("gpipe", "interleaved")


def _plans():
    for name, ranks, microbatches in itertools.product(SCHEDULES, RANKS, MICROBATCHES):
        for stages in (1, 2, 3) if name in SEVERAL else (1,):
            if name != "interleaved" or microbatches % ranks == 0:
                yield name, ranks, stages, microbatches, SCHEDULES[name](ranks, stages, microbatches)


def test_every_plan_does_everything_once_and_comes_to_an_end():
    for name, ranks, stages, microbatches, plan in _plans():
        kinds = "FIW" if name == "zero_bubble" else "FB"
        for rank, actions in enumerate(plan):
            own = range(rank, ranks * stages, ranks)
            assert set(actions) == {Action(*a) for a in itertools.product(kinds, own, range(microbatches))}
            assert len(actions) == len(set(actions))
        # Also where hops take time; a deadlock would raise.
        assert simulate(plan, alike(ranks * stages, hop=0.7)).duration > 0


def _bubble(name: str, ranks: int, stages: int, microbatches: int) -> float:
    """For stages whose F, I and W take equal time (Narayanan et al. 2021; Qi et al. 2023)."""
    if name == "zero_bubble":
        return (ranks - 1) / (3 * microbatches + ranks - 1)
    return (ranks - 1) / (stages * microbatches + ranks - 1)


def test_bubbles_are_those_of_the_formulas():
    for name, ranks, stages, microbatches, plan in _plans():
        if microbatches >= ranks:
            forecast = simulate(plan, alike(ranks * stages))
            assert forecast.bubble == pytest.approx(_bubble(name, ranks, stages, microbatches)), (name, ranks, stages)


@pytest.mark.parametrize(
    ("name", "held"),
    [("gpipe", [8] * 4), ("1f1b", [4, 3, 2, 1]), ("eager_1f1b", [7, 5, 3, 1]), ("zero_bubble", [4, 4, 4, 4])],
)
def test_so_many_microbatches_are_under_way(name, held):
    assert [in_flight(actions) for actions in SCHEDULES[name](4, 1, 8)] == held


def test_both_ends_of_a_channel_agree_on_the_order():
    for _, ranks, stages, microbatches, plan in _plans():
        for rank in range(ranks):
            first, last = rank == 0, rank == ranks - 1
            wanted = microbatches * (stages - 1 if first else stages)
            assert len(arrivals(plan, rank, "F")) == wanted
            assert len(arrivals(plan, rank, "B")) == microbatches * (stages - 1 if last else stages)
            assert all(stage % ranks == rank for stage, _ in arrivals(plan, rank, "F"))


def test_eager_1f1b_hides_the_round_trip_that_limits_1f1b():
    costs = Costs([20.0] * 4, [20.0] * 4, [20.0] * 4, [16.8] * 3)
    durations = {name: simulate(SCHEDULES[name](4, 1, 8), costs).duration for name in ("1f1b", "eager_1f1b")}
    assert bound(costs, 8) == pytest.approx(760.8)
    assert durations == {"1f1b": pytest.approx(928.8), "eager_1f1b": pytest.approx(760.8)}


def test_a_link_carries_one_message_at_a_time():
    plan = [[Action("F", 0, 0), Action("F", 0, 1)], [Action("F", 1, 0), Action("F", 1, 1)]]
    forecast = simulate(plan, Costs([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [10.0]))
    assert [slot.start for slot in forecast.slots[1]] == [11.0, 21.0]


def test_messages_to_both_neighbours_share_what_a_rank_can_send():
    forecast = simulate(SCHEDULES["1f1b"](3, 1, 3), alike(3, hop=4.0))
    begins = [{str(slot.action): slot.start for slot in slots} for slots in forecast.slots]
    # From the middle the first gradient goes back at 19, the last activations onward at 20. They share from then on:
    # 3 of the gradient's 4 units are left and take 6; then the activations' last unit shares with the second gradient.
    assert begins[1]["B0 of stage 1"] == 17
    assert begins[1]["F2 of stage 1"] == 19
    assert begins[0]["B0 of stage 0"] == 26
    assert begins[2]["F2 of stage 2"] == 28


def test_what_comes_from_both_neighbours_shares_what_a_rank_can_receive():
    plan = [
        [Action("F", 0, microbatch) for microbatch in range(4)],
        [Action("F", 1, 0), Action("B", 1, 0)],
        [Action("F", 2, 0), Action("B", 2, 0)],
    ]
    gradient = simulate(plan, alike(3, hop=4.0)).slots[1][-1]
    # It goes back at 13, as the last of four activations sets out, and both take twice as long.
    assert gradient.start == 21


def test_a_deadlock_is_found_without_a_process_and_says_who_waits():
    plan = [[Action("F", 0, 0), Action("B", 0, 0)], [Action("B", 1, 0), Action("F", 1, 0)]]
    with pytest.raises(Deadlock) as found:
        simulate(plan, alike(2))
    assert str(found.value) == (
        "rank 0 cannot run B0 of stage 0 before B0 of stage 1; rank 1 cannot run B0 of stage 1 before F0 of stage 1"
    )
