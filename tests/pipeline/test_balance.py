"""Cuts that make the slowest stage fast, and schedules chosen by a simulation."""

from __future__ import annotations

import contextlib
import itertools
import random

import pytest
import torch
from torch import nn

from trainer.model.mlp import MLP
from trainer.parallel.pipeline import PipelineAxis
from trainer.pipeline.balance import Cost, balance, measure, stage_bytes
from trainer.pipeline.choose import Link, choose, costs_of
from trainer.pipeline.cut import Chain
from trainer.sample import Sample


def _slowest(seconds, begins):
    return max(sum(seconds[a:b]) for a, b in itertools.pairwise([0, *begins, len(seconds)]))


def test_no_other_cut_has_a_faster_slowest_stage():
    generator = random.Random(0)
    for _ in range(30):
        seconds = [generator.random() for _ in range(8)]
        costs = [Cost(second, 0.0, 0, 0, 0) for second in seconds]
        for stages in (1, 2, 3, 5, 8):
            begins = balance(costs, [1.0] * stages)
            assert len(begins) == stages - 1
            best = min(_slowest(seconds, c) for c in itertools.combinations(range(1, 8), stages - 1))
            assert _slowest(seconds, begins) == pytest.approx(best)


def test_of_equally_good_cuts_the_most_even_is_taken():
    assert balance([Cost(second, 0.0, 0, 0, 0) for second in (4, 1, 1, 1, 1)], [1.0] * 3) == [1, 3]


def test_a_stage_that_would_not_fit_is_avoided_where_it_can_be():
    costs = [Cost(1.0, 0.0, 0, 10, 0) for _ in range(6)]
    assert balance(costs, [4.0, 1.0]) == [3]
    # The first stage holds 40 bytes a unit.
    assert balance(costs, [4.0, 1.0], memory_bytes=100) == [2]


def test_measuring_leaves_the_model_and_the_random_state_as_they_were():
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    chain = Chain(net, "auto")
    costs = measure(chain, torch.randn(16, 8), torch.sum, torch.device("cpu"), contextlib.nullcontext)
    torch.set_rng_state(state)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert [cost.parameter_bytes for cost in costs] == [4 * 72, 4 * 16, 4 * 18]
    assert [cost.output_bytes for cost in costs] == [4 * 16 * 8, 4 * 16 * 8, 4 * 16 * 2]
    # A linear layer keeps its input, which is what the layer before gives.
    assert costs[0].saved_bytes == 4 * 16 * 8


def test_a_model_is_measured_unit_by_unit():
    chain = Chain(MLP(depth=3).build(Sample("image", (1, 8, 8), 10)), "auto")
    costs = measure(chain, torch.randn(4, 1, 8, 8), torch.sum, torch.device("cpu"), contextlib.nullcontext)
    assert len(costs) == len(chain.units) == 4
    assert all(cost.forward_s > 0 and cost.backward_s > 0 for cost in costs)


def _costs(count=8, activation=2_000_000, saved=1_000):
    return [Cost(0.010, 0.020, 1_000, saved, activation) for _ in range(count)]


def test_costs_of_stages_are_those_of_their_units_and_hops():
    links = [Link(0.001, 1e9), Link(0.002, 2e9)]
    costs = costs_of(_costs(6), [1, 3], links)
    assert costs.forward == pytest.approx([0.010, 0.020, 0.030])
    assert costs.backward_input == costs.backward_weight == pytest.approx([0.010, 0.020, 0.030])
    assert costs.hop == pytest.approx([0.003, 0.003])


@pytest.mark.parametrize(
    ("bytes_per_s", "memory", "wanted"),
    [
        # A fast link: what is left is the bubble, and splitting the backward pass fills most of it.
        (1e15, 1e12, "zero_bubble"),
        # A slow one, 25 ms a hop: nobody may wait for the round trip of a micro-batch.
        (80e6, 1e12, "eager_1f1b"),
        # No room for as many activations.
        (80e6, 20_000, "zero_bubble"),
        (80e6, 12_000, "1f1b"),
    ],
)
def test_auto_takes_the_schedule_that_fits_the_link_and_the_memory(bytes_per_s, memory, wanted):
    axis = PipelineAxis(size=4, schedule="auto")
    choice = choose(axis, 8, _costs(), [Link(0.0, bytes_per_s)] * 3, memory)
    assert choice.schedule == wanted, choice.reason
    assert choice.reason.startswith(f"{wanted}, ")
    assert len(choice.begins) == 3


def test_auto_says_what_it_measured_and_what_else_it_tried():
    choice = choose(PipelineAxis(size=4, schedule="auto"), 8, _costs(), [Link(0.0, 80e6)] * 3, 20_000)
    assert choice.reason == (
        "zero_bubble, 958 ms a step in a simulation (1f1b 1080, eager_1f1b 1020, interleaved 1230, bound of whole"
        " backward passes 810); the slowest stage takes 60.0 ms a micro-batch, the slowest hop 25.0 ms; the activations"
        " of gpipe do not fit"
    )


def test_memory_is_that_of_states_and_of_what_is_under_way():
    assert stage_bytes(_costs(2), in_flight=3) == 2 * (4 * 1_000 + 3 * 1_000)
