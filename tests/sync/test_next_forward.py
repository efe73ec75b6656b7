"""Updates land under the next forward pass, and the result is that of strict training."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.sync import scenario
from tests.sync.scenario import Case, adamw, sgd
from trainer.comm.onebit import OneBit
from trainer.comm.powersgd import PowerSGD
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.sync.next_forward import NextForward
from trainer.sync.strict import Strict

# Some ten chunks of the test's model.
RULE = NextForward(chunk_mb=0.01)
CASES = {
    "sgd": Case(sgd),
    "adamw": Case(adamw, dtype=torch.float32),
    "accumulation": Case(sgd, microbatches=4),
}


def _both(mesh: Mesh, cases: list[Case]) -> list[tuple[dict, dict]]:
    return [(scenario.train(mesh, Strict(), case), scenario.train(mesh, RULE, case)) for case in cases]


@pytest.mark.parametrize("size", [1, 2])
def test_weights_buffers_and_optimizer_state_are_bitwise_those_of_strict(workers, size):
    ranks = workers(size, _both, list(CASES.values()))
    for name, (strict, lazy) in zip(CASES, ranks[0], strict=True):
        for key, value in strict.items():
            assert torch.equal(lazy[key], value), f"{name}: {key}"
    for other in ranks[1:]:
        for (_, mine), (_, theirs) in zip(other, ranks[0], strict=True):
            assert all(torch.equal(mine[key], theirs[key]) for key in mine if key not in scenario.OWN)


def _all_ranks(mesh: Mesh) -> tuple[dict, dict]:
    case = Case(sgd)
    return scenario.train(mesh, Strict(), case), scenario.train(mesh, RULE, case)


@pytest.mark.parametrize("size", [3, 4])
def test_more_ranks_end_where_strict_ends(workers, size):
    # A ring adds three terms in an order that depends on where it is cut.
    ranks = workers(size, _all_ranks)
    strict, lazy = ranks[0]
    for key, value in strict.items():
        torch.testing.assert_close(lazy[key], value, atol=1e-12, rtol=0)
    for _, other in ranks[1:]:
        assert all(torch.equal(other[key], lazy[key]) for key in lazy if key not in scenario.OWN)


def _hooks(mesh: Mesh) -> list[dict]:
    hooks = (TopK(ratio=0.1, min_numel=8), OneBit(min_numel=8), PowerSGD(rank=2, min_numel=8))
    return [scenario.train(mesh, RULE, Case(sgd, comm=hook, dtype=torch.float32)) for hook in hooks]


def test_every_kind_of_hook_keeps_the_ranks_alike(workers):
    one, other = workers(2, _hooks)
    for mine, theirs in zip(one, other, strict=True):
        assert all(value.isfinite().all() for value in mine.values())
        assert all(torch.equal(mine[key], theirs[key]) for key in mine if key not in scenario.OWN)


def _clipped(mesh: Mesh) -> dict[str, tuple[dict, dict]]:
    loose, tight = Case(sgd, max_norm=1e9, previous_norm=True), Case(sgd, max_norm=0.05, previous_norm=True)
    return {
        "loose": (scenario.train(mesh, Strict(), Case(sgd)), scenario.train(mesh, RULE, loose)),
        "first": tuple(scenario.train(mesh, rule, tight._replace(steps=1)) for rule in (Strict(), RULE)),
        "tight": tuple(scenario.train(mesh, rule, tight) for rule in (Strict(), RULE)),
    }


def test_the_norm_of_the_step_before_clips_nothing_it_should_not_and_nearly_what_it_should(workers):
    (results, other) = workers(2, _clipped)
    strict, lazy = results["loose"]
    assert all(torch.equal(lazy[key], value) for key, value in strict.items())
    strict, lazy = results["first"]
    for key, value in strict.items():
        # The first step is clipped by its own norm, which chunks add up in another order: whether its last bit is the
        # same depends on the processor.
        torch.testing.assert_close(lazy[key], value, atol=1e-15, rtol=1e-14)
    strict, lazy = results["tight"]
    weight = "model/first.weight"
    assert not torch.equal(lazy[weight], strict[weight])
    # Gradients' norms change by some percent from one step to the next here, and so does what is clipped.
    assert (strict[weight] - lazy[weight]).norm() / strict[weight].norm() < 0.02
    assert all(torch.equal(other["tight"][1][key], lazy[key]) for key in lazy if key not in scenario.OWN)


def _hold_back_until_waited_for(training: scenario.Training) -> None:
    """From now on updates land when, and not before, somebody waits for them."""
    opened = threading.Event()
    optimizer, meter = training.synchroniser._updates.optimizer, training.replica.meter
    step, begin = optimizer.step, meter.begin

    def late(*arguments: Any) -> None:
        opened.wait()
        step(*arguments)

    def seen(lane: str, name: str = "") -> Any:
        if lane == "wait":
            opened.set()
        return begin(lane, name)

    optimizer.step, meter.begin = late, seen


def _ways(mesh: Mesh) -> dict[str, bool]:
    """Whether each way to the weights, taken right after a step whose updates are held back, sees whole weights."""
    case = Case(sgd, steps=6)
    expected = scenario.train(mesh, Strict(), case._replace(steps=6))
    ways: dict[str, Any] = {
        "state_dict": lambda net: dict(net.state_dict()),
        "parameters": lambda net: dict(net.named_parameters()),
        "deepcopy": lambda net: dict(copy.deepcopy(net).state_dict()),
        "average": lambda net: dict(torch.optim.swa_utils.AveragedModel(net).module.state_dict()),
    }
    seen = {}
    for name, way in ways.items():
        training = scenario.begin(mesh, RULE, case)
        scenario.run(training, mesh, case, range(5))
        training.synchroniser.flush()
        _hold_back_until_waited_for(training)
        scenario.run(training, mesh, case, range(5, 6))
        found = way(training.net)
        seen[name] = all(torch.equal(value, expected[f"model/{key}"]) for key, value in found.items())
        training.close()
    return seen


def test_every_way_to_the_weights_sees_them_whole(workers):
    for seen in workers(2, _ways):
        assert seen == dict.fromkeys(seen, True)


class _Borrowing(nn.Module):
    """Reads a weight whose module runs later, and attention's inner weights, whose module never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.late = nn.Linear(8, 8)
        self.out = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = x.squeeze(1) @ self.late.weight
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(self.late(x).flatten(1))


def _borrowed(mesh: Mesh) -> tuple[dict, dict]:
    case = Case(adamw, model=_Borrowing, steps=12)
    return scenario.train(mesh, Strict(), case), scenario.train(mesh, RULE, case)


def test_weights_that_other_modules_read_are_waited_for(workers):
    for strict, lazy in workers(2, _borrowed):
        assert all(torch.equal(lazy[key], value) for key, value in strict.items())


def _jittered(mesh: Mesh) -> list[float]:
    """Many steps in which every rank computes its gradients at a pace of its own."""
    case = Case(sgd, steps=500, dtype=torch.float32)
    training = scenario.begin(mesh, NextForward(chunk_mb=0.005), case)
    pace = threading.Event()
    generator = torch.Generator().manual_seed(mesh.rank)

    def pause(*_: Any) -> None:
        pace.wait(0.002 * torch.rand(1, generator=generator).item())

    for module in training.net.modules():
        module.register_full_backward_hook(pause)
    scenario.run(training, mesh, case, range(500))
    training.synchroniser.finish()
    weights = training.net.first.weight.flatten()[:8].tolist()
    training.close()
    return weights


def test_ranks_of_different_pace_neither_hang_nor_drift(workers):
    one, *others = workers(3, _jittered)
    assert all(other == one for other in others)
