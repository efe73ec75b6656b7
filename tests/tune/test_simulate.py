"""A step worked out: what hides beside what, on how many cores."""

from __future__ import annotations

import pytest

from trainer.tune.simulate import Outcome, Program, Segment, Work, simulate

FREE = 1e9
"""cores that nobody runs out of"""


def strict(backward: list[float], jobs: list[float], cores: float = FREE, busy: float = 1.0, comm_busy: float = 0.0):
    """A forward pass of a second, layers whose gradients are a job each, and an update of half a second."""
    return Program(
        [
            Segment(Work(1, busy)),
            *(Segment(Work(wall, wall * busy), readies=(job,)) for job, wall in enumerate(backward)),
            Segment(Work(0.5, 0.5 * busy), waits=tuple(range(len(jobs)))),
        ],
        [Work(wall, wall * comm_busy) for wall in jobs],
        cores,
    )


def test_what_travels_beside_the_backward_pass_costs_nothing():
    assert simulate(strict([1, 1, 1], [0.5, 0.5, 0.0])) == pytest.approx(Outcome(4.5, 1.0, 0.0))


def test_the_last_bucket_has_nothing_beside_it():
    assert simulate(strict([1, 1, 1], [0.5, 0.5, 0.5])) == pytest.approx(Outcome(5.0, 1.5, 0.5))


def test_buckets_queue_for_the_wire():
    # Ready at 2, 3 and 4; there at 4, 6 and 8.
    assert simulate(strict([1, 1, 1], [2, 2, 2])) == pytest.approx(Outcome(8.5, 6.0, 4.0))


def test_a_core_that_both_need_is_shared():
    # Beside the second layer the first one's bucket takes half of the only core.
    program = strict([1, 1], [1, 0], cores=1, comm_busy=1)
    assert simulate(program).step_s == pytest.approx(1 + 1 + 2 + 0.5)
    # A sleeping device needs none of it, and a job that mostly waits for the wire takes little.
    assert simulate(strict([1, 1], [1, 0], cores=1, busy=0, comm_busy=1)).step_s == pytest.approx(3.5)
    assert 3.5 < simulate(strict([1, 1], [1, 0], cores=1, comm_busy=0.1)).step_s < 3.6


def lazy(jobs: list[float], urgent: bool) -> Program:
    """Two layers of a second each way; a layer waits for its own gradient in the next forward pass only."""
    return Program(
        [
            Segment(Work(1), waits=(0,)),
            Segment(Work(1), waits=(1,)),
            Segment(Work(1), readies=(1,)),
            Segment(Work(1), readies=(0,)),
        ],
        [Work(wall) for wall in jobs],
        FREE,
        urgent,
    )


def test_what_the_next_forward_pass_needs_later_hides_beside_it():
    # The first layer's gradient is the last and exposed; the second's has a layer of each pass to hide beside.
    assert simulate(lazy([0.5, 1.9], urgent=True)) == pytest.approx(Outcome(4.9 + 0.5, 2.4, 1.4))
    assert simulate(lazy([0.5, 0.9], urgent=True)) == pytest.approx(Outcome(4.5, 1.4, 0.5))


def test_the_urgent_overtake():
    three = Program(
        [
            Segment(Work(1), waits=(0,)),
            Segment(Work(1), waits=(1, 2)),
            Segment(Work(1), readies=(2, 1, 0)),
        ],
        [Work(0.5), Work(0.5), Work(0.5)],
        FREE,
        urgent=True,
    )
    assert simulate(three).step_s == pytest.approx(3.5)
    assert simulate(three._replace(urgent=False)).step_s == pytest.approx(4.5)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_jobs_under_way_together_take_as_long_as_one_after_another(window):
    program = strict([0.1, 0.1, 0.1], [1, 1, 1])._replace(window=window)
    assert simulate(program).step_s == pytest.approx(1.1 + 3 + 0.5)


def test_no_step_is_shorter_than_its_parts():
    program = strict([0.3, 0.2, 0.7], [0.4, 0.1, 0.9])
    found = simulate(program)
    assert found.step_s >= 1 + 0.3 + 0.2 + 0.7 + 0.5
    assert found.step_s == pytest.approx(2.7 + found.exposed_s)


def test_what_never_becomes_ready_is_told():
    program = Program([Segment(Work(1), readies=(0,)), Segment(Work(1), waits=(0, 1))], [Work(1), Work(1)], FREE)
    assert simulate(program).step_s == 3
    with pytest.raises(ValueError, match="never become ready"):
        simulate(Program([Segment(Work(1), waits=(0,), readies=(0,))], [Work(float("inf"))], FREE, window=0))


def test_what_has_arrived_and_waits_to_land_needs_no_core():
    program = Program(
        [Segment(Work(0), readies=(0, 1)), Segment(Work(10, 10)), Segment(Work(0), waits=(0, 1))],
        [Work(3), Work(0.5, 0.5)],
        cores=1,
        window=2,
    )
    # On half a wire and half a core the second job is under way for two seconds, and takes one of the computing's. Then
    # it waits for the first to land, and the core is the computing's alone.
    assert simulate(program).step_s == pytest.approx(11)
