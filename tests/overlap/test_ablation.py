"""The step without communication changes nothing, and its time tells what communication costs."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn

from trainer.comm.allreduce import AllReduce
from trainer.mesh import Mesh
from trainer.overlap.ablation import Ablation, compare
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import WholeExecutor, scaler_for

NO_PIPELINE = {"await_activations": 0.0, "await_gradients": 0.0}


class _Recalling(nn.Module):
    """A layer with buffers, torch's randomness and Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.out = nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(self.norm(x))) * random.random()


def _same(output: torch.Tensor) -> torch.Tensor:
    return output


def _train(mesh: Mesh, every: int | None) -> dict[str, Any]:
    torch.manual_seed(3)
    random.seed(3)
    net, meter, device = _Recalling(), Meter(HostClock()), torch.device("cpu")
    timed = Timed(meter, *AllReduce().build(mesh.groups["data"]), lambda nbytes: float(nbytes))
    module = replicate(net, DataAxis(), mesh.groups["data"], timed, timed_hook)
    executor = WholeExecutor(
        module,
        nn.functional.cross_entropy,
        _same,
        0.5,
        device,
        "fp32",
        2,
        meter,
        scaler_for("fp32", device),
        module.no_sync,
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    ablation = Ablation(executor, meter, device, every) if every else None
    for done in range(1, 9):
        inputs, targets = torch.randn(8, 6), torch.randint(2, (8,))
        meter.begin_step()
        executor.forward_backward(inputs, targets)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        meter.end_step()
        if ablation is not None:
            ablation.step(done, inputs, targets)
            assert all(parameter.grad is None for parameter in net.parameters())
    # The last bucket's callback may run a moment after the backward pass has seen it arrive.
    steps: list[Any] = []
    while len(steps) < 8:
        steps += meter.read()
    buckets = sum(len(step.buckets) for step in steps)
    forwards = sum(span.lane == "forward" for step in steps for span in step.spans)
    repeated = ablation.numbers() if ablation else [0, 0.0]
    return {"state": net.state_dict(), "buckets": buckets, "forwards": forwards, "repeated": repeated}


def test_a_run_with_repeated_steps_is_bitwise_the_run_without(workers):
    plain, repeating = workers(2, _train, None), workers(2, _train, 2)
    for one, other in zip(plain, repeating, strict=True):
        assert all(torch.equal(one["state"][name], other["state"][name]) for name in one["state"])


def test_a_repeated_step_sends_nothing_and_enters_no_step(workers):
    for result in workers(2, _train, 2):
        assert result["buckets"] == 8
        assert result["forwards"] == 8 * 2
        assert result["repeated"][0] == 4
        assert result["repeated"][1] > 0


def test_what_communication_costs_is_the_difference_of_the_slowest_ranks():
    ranks = [
        NO_PIPELINE | {"forward": 0.1, "backward": 0.3, "tail": 0.2, "comm": 0.4},
        NO_PIPELINE | {"forward": 0.1, "backward": 0.4, "tail": 0.0, "comm": 0.6},
    ]
    metrics = compare(ranks, [[2, 0.6], [1, 0.3]])
    assert metrics["overlap/ablation_exposed_ms"] == pytest.approx(300)
    assert metrics["overlap/ablation_hidden_ratio"] == pytest.approx(1 - 0.3 / 0.5)
    assert metrics["overlap/slowdown"] == pytest.approx(0.9 / 0.6)


def test_a_wait_for_a_neighbouring_stage_is_part_of_the_step_and_of_its_repetition():
    sums = {"forward": 0.1, "backward": 0.2, "await_activations": 0.3, "await_gradients": 0.1, "tail": 0.1, "comm": 0.2}
    metrics = compare([sums], [[1, 0.7]])
    assert metrics["overlap/ablation_exposed_ms"] == pytest.approx(100)
    assert metrics["overlap/slowdown"] == pytest.approx(1)


def test_nothing_is_said_before_every_rank_has_repeated_a_step():
    sums = NO_PIPELINE | {"forward": 0.1, "backward": 0.3, "tail": 0.2}
    assert compare([sums, sums], [[1, 0.3], [0, 0.0]]) == {}
    assert compare([sums, {}], [[1, 0.3], [1, 0.3]]) == {}
