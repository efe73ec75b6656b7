"""What every compressing hook promises: no gradient lost, equal replicas, nothing poisoned, and numbers to look at."""

from __future__ import annotations

import logging
import time

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.comm import scenario
from tests.comm.scenario import COMPRESSED, EVERY
from trainer.comm.base import CommHook
from trainer.comm.compressed import Compressed
from trainer.comm.int8 import Int8
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError


def assert_all_conserve(ranks: list[dict[str, list]], spelled: str) -> None:
    for name in ranks[0]:
        scenario.assert_conserved([rank[name] for rank in ranks], f"{name}, {spelled}")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_gradient_is_lost(workers, size):
    """Also when DDP cuts its buckets anew after the first step."""
    assert_all_conserve(workers(size, scenario.each, scenario.mass, COMPRESSED, 5), f"{size} ranks")


@pytest.mark.parametrize(
    "options",
    [{"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}],
    ids=lambda options: next(iter(options)),
)
def test_no_gradient_is_lost_however_ddp_cuts_its_buckets(workers, options):
    ranks = workers(2, scenario.each, scenario.mass, COMPRESSED, 5, scenario.net, options)
    assert_all_conserve(ranks, str(options))


def test_no_gradient_of_a_tiny_model_is_lost(workers):
    """Fewer elements than ranks, all of which compress."""
    specs = {name: spec.model_copy(update={"min_numel": 1}) for name, spec in COMPRESSED.items()}
    assert_all_conserve(workers(4, scenario.each, scenario.mass, specs, 5, scenario.tiny), "tiny")


@pytest.mark.parametrize("names", [list(EVERY)[:5], list(EVERY)[5:]], ids=", ".join)
def test_replicas_stay_bitwise_equal(workers, names):
    ranks = workers(3, scenario.each, scenario.weights_after, {name: EVERY[name] for name in names}, 200)
    for name in names:
        first, *others = (rank[name] for rank in ranks)
        assert all(torch.equal(a, b) for other in others for a, b in zip(other, first, strict=True)), name
        assert all(weight.isfinite().all() for weight in first), name


def _poisoned(mesh: Mesh, spec: Compressed) -> tuple[bool, bool, bool, list[str]]:
    """Three good steps, one in which a single rank's loss is not finite, and a good one."""
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda entry: heard.append(entry.getMessage())
    logging.getLogger("trainer.comm").addHandler(handler)
    for step in range(3):
        scenario.backward(ddp, mesh, step)

    def residuals() -> list[torch.Tensor]:
        kept = [state.memory.get(p, "residual") for p in module.parameters()]
        return [value.clone() for value in kept if value is not None]

    before = residuals()
    module.zero_grad()
    x = scenario.inputs(mesh, 3)
    if mesh.rank == 1:
        x[0, 0] = float("inf")
    ddp(x).square().sum().backward()
    spoiled = all(not p.grad.isfinite().all() for p in module.parameters() if p.dim() > 1)
    untouched = all(torch.equal(a, b) for a, b in zip(before, residuals(), strict=True))
    module.zero_grad()
    scenario.backward(ddp, mesh, 4)
    logging.getLogger("trainer.comm").removeHandler(handler)
    return spoiled, untouched, all(p.grad.isfinite().all() for p in module.parameters()), heard


def test_a_gradient_that_is_not_finite_reaches_all_ranks_and_no_residual_and_is_reported(workers):
    for rank in workers(2, scenario.each, _poisoned, COMPRESSED):
        for name, (spoiled, untouched, recovered, heard) in rank.items():
            assert (spoiled, untouched, recovered) == (True, True, True), name
            assert "comm: a gradient of step 3 is not finite; no residual takes it in" in heard, name


def _zeros(mesh: Mesh, spec: CommHook) -> tuple[bool, bool]:
    """A step whose gradient is zero everywhere, and one with a column of zeros."""
    module = scenario.net()
    ddp, _ = scenario.wrap(module, mesh, spec)
    for step in range(4):
        module.zero_grad()
        (ddp(scenario.inputs(mesh, step)).sum() * 0).backward()
    zero = not any(p.grad.any() for p in module.parameters())
    module.zero_grad()
    x = scenario.inputs(mesh, 4)
    x[:, 5] = 0
    ddp(x).square().sum().backward()
    return zero, not module[0].weight.grad[:, 5].any() and all(p.grad.isfinite().all() for p in module.parameters())


def test_zeros_stay_zeros(workers):
    for name, seen in workers(2, scenario.each, _zeros, EVERY)[0].items():
        assert seen == (True, True), name


class _Numbered(nn.Module):
    """Eight parameters, whose gradients are 1 to 8 everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(4096)) for _ in range(8)])

    def forward(self) -> torch.Tensor:
        return sum((number + 1) * part.sum() for number, part in enumerate(self.parts))


def _jittered(mesh: Mesh, spec: Compressed, steps: int, seed: int) -> float:
    """A bucket a parameter, whose gradient is its own number, so that a bucket that met another one would show."""
    module = _Numbered()
    ddp, _ = scenario.wrap(module, mesh, spec)
    delays = torch.Generator().manual_seed(10 * seed + mesh.rank)

    def delay(_: torch.Tensor) -> None:
        time.sleep(torch.rand((), generator=delays).item() * 2e-4)

    for part in module.parts:
        part.register_hook(delay)
    wrong = 0.0
    for _ in range(steps):
        module.zero_grad()
        ddp().backward()
        wrong = max(wrong, *(abs(p.grad / (n + 1) - 1).max().item() for n, p in enumerate(module.parts)))
    return wrong


@pytest.mark.parametrize("seed", range(4))  # 500 steps in all: slow cores need a tenth of a second for one
def test_random_delays_neither_hang_nor_cross_buckets(workers, seed):
    assert max(workers(3, _jittered, Int8(), 125, seed)) < 0.01


def _accumulated(mesh: Mesh, spec: Compressed) -> list[int]:
    ddp, state = scenario.wrap(scenario.net(), mesh, spec)
    steps = []
    for step in range(2):
        with ddp.no_sync():
            scenario.backward(ddp, mesh, 2 * step)
        steps.append(state.step)
        scenario.backward(ddp, mesh, 2 * step + 1)
        steps.append(state.step)
    return steps


def test_an_accumulating_pass_does_not_count_as_a_step(workers):
    for name, steps in workers(2, scenario.each, _accumulated, COMPRESSED)[0].items():
        assert steps == [-1, 0, 0, 1], name


def _descent(mesh: Mesh, spec: Compressed, rates: list[float], steps: int) -> list[float]:
    """The largest distance from the optimum near the end of each learning rate.

    Every rank pulls towards a point of its own, so what is pending never ends to be large.
    """
    module = nn.Linear(WIDTH := scenario.WIDTH, WIDTH, bias=False)
    points = [torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(r)) for r in range(mesh.world)]
    optimum, own = torch.stack(points).mean(0), points[mesh.rank]
    ddp, _ = scenario.wrap(module, mesh, spec)
    optimizer = torch.optim.SGD(module.parameters(), lr=rates[0])
    furthest = []
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        distances = []
        for _ in range(steps):
            optimizer.zero_grad()
            (0.5 * (ddp(torch.eye(WIDTH)).T - own).square().sum()).backward()
            optimizer.step()
            distances.append((module.weight.detach() - optimum).norm().item())
        furthest.append(max(distances[-steps // 4 :]))
    return furthest


def test_the_learning_rate_may_change_while_gradient_is_pending(workers):
    """What is pending stays a gradient: at a fifth of the rate it disturbs the weights a fifth as much."""
    specs = {name: COMPRESSED[name] for name in ("topk", "randomk", "int8", "onebit", "powersgd")}
    for name, (fast, slow) in workers(2, scenario.each, _descent, specs, [0.05, 0.01], 200)[0].items():
        assert slow < 0.5 * fast, name


def _without_feedback(mesh: Mesh, spec: Compressed) -> int:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    for step in range(3):
        scenario.backward(ddp, mesh, step)
    return sum(state.memory.get(p, "residual") is not None for p in module.parameters())


def test_without_error_feedback_nothing_is_kept(workers):
    specs = {name: spec.model_copy(update={"error_feedback": False}) for name, spec in COMPRESSED.items()}
    assert set(workers(2, scenario.each, _without_feedback, specs)[0].values()) == {0}


def _numbers(mesh: Mesh, spec: Compressed) -> dict[str, float]:
    ddp, state = scenario.wrap(scenario.net(), mesh, spec)
    for step in range(3):
        scenario.backward(ddp, mesh, step)
    return state.numbers()


def test_it_reports_contraction_residual_and_encoding_time(workers):
    numbers = workers(2, _numbers, TopK(ratio=0.05))[0]
    # 5 % of a Gaussian tensor keeps about a quarter of the square.
    assert 0.3 < numbers["comm/contraction"] < 0.95
    assert numbers["comm/residual_norm"] > 0
    assert numbers["comm/residual_mb"] == pytest.approx(5 * 1600 * 4 / 2**20)
    assert numbers["comm/encode_ms"] > 0


def _as_any_program(mesh: Mesh) -> bool:
    state, hook = TopK(ratio=0.01).build(mesh.groups["data"])
    ddp = DistributedDataParallel(scenario.net(), process_group=mesh.groups["data"])
    ddp.register_comm_hook(state, hook)
    scenario.backward(ddp, mesh, 0)
    return True


def test_two_lines_are_enough_in_any_program(workers):
    assert workers(2, _as_any_program) == [True, True]


def _never_used(mesh: Mesh, spec: Compressed) -> tuple[dict, set[str]]:
    """What a model gets of which nothing is trained: no DDP, so no bucket."""
    state, _ = spec.build(mesh.groups["data"])
    numbers, carried = spec.numbers(state), set(spec.carried(state, nn.Identity()))
    spec.close(state)
    return numbers, carried


def test_a_hook_that_never_saw_a_bucket_has_nothing_to_tell_or_to_end(workers):
    assert workers(1, _never_used, TopK(ratio=0.01)) == [({}, {"step", "averaged"})]


def test_fp16_and_error_feedback_are_refused_together(make_run, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError) as caught:
        make_run("precision=fp16", "comm=int8")
    assert str(caught.value) == (
        "comm.error_feedback: fp16 changes its loss scale, and what is pending would keep the old one; use"
        " precision=bf16, or comm.error_feedback=false"
    )
    assert make_run("precision=fp16", "comm=int8", "comm.error_feedback=false").precision == "fp16"
