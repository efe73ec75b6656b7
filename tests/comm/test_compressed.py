"""What every compressing hook promises: no gradient lost, equal replicas, counted bytes, and nothing poisoned."""

from __future__ import annotations

import contextlib
import time

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.comm import scenario
from trainer.comm.bf16 import BF16
from trainer.comm.compressed import Compressed
from trainer.comm.fp16 import FP16
from trainer.comm.int8 import Int8
from trainer.comm.onebit import OneBit
from trainer.comm.powersgd import PowerSGD
from trainer.comm.randomk import RandomK
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError

HOOKS = [
    pytest.param(TopK(ratio=0.05), id="topk"),
    pytest.param(TopK(ratio=0.05, values="fp16"), id="topk-fp16"),
    pytest.param(RandomK(ratio=0.05), id="randomk"),
    pytest.param(Int8(), id="int8"),
    pytest.param(OneBit(agree_every=3), id="onebit"),
    pytest.param(PowerSGD(rank=2), id="powersgd"),
    pytest.param(TopK(ratio=0.05, warmup_steps=2), id="topk-warmup"),
]
HALVES = [pytest.param(FP16(), id="fp16"), pytest.param(BF16(), id="bf16")]


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("spec", HOOKS)
def test_no_gradient_is_lost(workers, spec, size):
    """The sum of gradients and old residuals is N times the result and the sum of new residuals, also when DDP cuts its
    buckets anew after the first step."""
    ranks = workers(size, scenario.mass, spec, 5, torch.float64)
    checked = 0
    for step in zip(*ranks, strict=True):
        for name in step[0]:
            own, before, after, result = (
                torch.stack(parts) for parts in zip(*(rank[name] for rank in step), strict=True)
            )
            torch.testing.assert_close((own + before).sum(0), size * result[0] + after.sum(0), atol=1e-10, rtol=1e-12)
            checked += 1
    assert checked >= 5 * 3


@pytest.mark.parametrize("spec", HOOKS + HALVES)
def test_replicas_stay_bitwise_equal(workers, spec):
    ranks = workers(3, scenario.weights_after, spec, 200)
    assert all(torch.equal(a, b) for rank in ranks[1:] for a, b in zip(rank, ranks[0], strict=True))
    assert all(weight.isfinite().all() for weight in ranks[0])


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("spec", HOOKS)
def test_the_bytes_it_reports_are_those_of_its_collectives(workers, spec, size):
    for reported, sent in workers(size, scenario.bytes_of_a_step, spec):
        assert reported == pytest.approx(sent)


def _poisoned(mesh: Mesh, spec: Compressed) -> tuple[bool, bool]:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    for step in range(3):
        scenario.backward(ddp, mesh, step)
    kept = [state.memory.get(p, "residual") for p in module.parameters()]
    before = [value.clone() for value in kept if value is not None]
    module.zero_grad()
    x = torch.randn(8, scenario.WIDTH)
    if mesh.rank == 1:
        x[0, 0] = float("inf")
    ddp(x).square().sum().backward()
    spoiled = all(not p.grad.isfinite().all() for p in module.parameters() if p.dim() > 1)
    kept = [state.memory.get(p, "residual") for p in module.parameters()]
    untouched = all(torch.equal(a, b) for a, b in zip(before, [v for v in kept if v is not None], strict=True))
    module.zero_grad()
    scenario.backward(ddp, mesh, 4)
    return spoiled and untouched, all(p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("spec", HOOKS[:6])
def test_a_gradient_that_is_not_finite_reaches_all_ranks_and_no_residual(workers, spec):
    assert workers(2, _poisoned, spec) == [(True, True), (True, True)]


def _without_feedback(mesh: Mesh, spec: Compressed) -> int:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    for step in range(3):
        scenario.backward(ddp, mesh, step)
    return sum(state.memory.get(p, "residual") is not None for p in module.parameters())


def test_without_error_feedback_nothing_is_kept(workers):
    assert workers(2, _without_feedback, TopK(ratio=0.05, error_feedback=False)) == [0, 0]


class _Numbered(nn.Module):
    """Eight parameters, whose gradients are 1 to 8 everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(4096)) for _ in range(8)])

    def forward(self) -> torch.Tensor:
        return sum((number + 1) * part.sum() for number, part in enumerate(self.parts))


def _jittered(mesh: Mesh, spec: Compressed, steps: int) -> list[float]:
    """A bucket a parameter, whose gradient is its own number, so that a bucket that met another one would show."""
    module = _Numbered()
    ddp, _ = scenario.wrap(module, mesh, spec)
    delays = torch.Generator().manual_seed(mesh.rank)
    wrong = []
    for _ in range(steps):
        module.zero_grad()
        time.sleep(torch.rand((), generator=delays).item() * 1e-3)
        ddp().backward()
        wrong += [abs(p.grad / (number + 1) - 1).max().item() for number, p in enumerate(module.parts)]
    return wrong


def test_500_steps_with_random_delays_neither_hang_nor_cross_buckets(workers):
    for wrong in workers(3, _jittered, Int8(), 500):
        assert max(wrong) < 0.01


def _accumulated(mesh: Mesh, spec: Compressed) -> list[int]:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    steps = []
    for step in range(4):
        with contextlib.nullcontext() if step % 2 else ddp.no_sync():
            scenario.backward(ddp, mesh, step)
        steps.append(state.step)
    return steps


def test_an_accumulating_pass_does_not_count_as_a_step(workers):
    assert workers(2, _accumulated, TopK(ratio=0.05))[0] == [-1, 0, 0, 1]


def _unusual(mesh: Mesh, spec: Compressed) -> list[bool]:
    """Mixed dtypes, channels-last convolutions, tiny and unused parameters, and some frozen half-way."""
    module = nn.ModuleDict(
        {
            "convolution": nn.Conv2d(8, 32, 3).to(memory_format=torch.channels_last),
            "fp64": nn.Linear(40, 40, dtype=torch.float64),
            "bf16": nn.Linear(40, 40, dtype=torch.bfloat16),
            "tiny": nn.Linear(1, 1),
            "unused": nn.Linear(40, 40),
        }
    )

    def forward(x: torch.Tensor) -> torch.Tensor:
        image = x[:, :1].view(-1, 1, 1, 1).expand(-1, 8, 5, 5).contiguous(memory_format=torch.channels_last)
        return (
            module["convolution"](image).square().mean()
            + module["fp64"](x.double()).square().mean().float()
            + module["bf16"](x.bfloat16()).float().square().mean()
            + module["tiny"](x[:, :1]).mean()
        )

    module.forward = forward
    ddp, _ = scenario.wrap(module, mesh, spec, find_unused_parameters=True)
    finite = []
    for step in range(4):
        if step == 2:
            module["fp64"].requires_grad_(False)
        module.zero_grad()
        torch.manual_seed(mesh.rank + step)
        ddp(torch.randn(4, 40)).backward()
        used = [p for name, p in module.named_parameters() if "unused" not in name and p.requires_grad]
        finite.append(all(p.grad.isfinite().all() and p.grad.abs().sum() >= 0 for p in used))
    return finite


@pytest.mark.parametrize("spec", HOOKS[:6])
def test_unusual_models_work(workers, spec):
    assert workers(2, _unusual, spec) == [[True] * 4] * 2


def _empty(mesh: Mesh, spec: Compressed) -> torch.Tensor:
    module = nn.Linear(2, 1, bias=False)
    ddp, _ = scenario.wrap(module, mesh, spec)
    ddp(torch.full((1, 2), mesh.rank + 1.0)).sum().backward()
    return module.weight.grad


@pytest.mark.parametrize("spec", HOOKS[:6])
def test_a_tiny_model_travels_dense_and_exact(workers, spec):
    assert torch.equal(workers(2, _empty, spec)[0], torch.full((1, 2), 1.5))


def _numbers(mesh: Mesh, spec: Compressed) -> dict[str, float]:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    for step in range(3):
        scenario.backward(ddp, mesh, step)
    return state.numbers()


def test_it_reports_contraction_residual_and_encoding_time(workers):
    numbers = workers(2, _numbers, TopK(ratio=0.05))[0]
    assert (
        0.3 < numbers["comm/contraction"] < 0.95
    )  # k/d = 5 % of a Gaussian tensor keeps about a quarter of the square
    assert numbers["comm/residual_norm"] > 0
    assert numbers["comm/residual_mb"] == pytest.approx(5 * 1600 * 4 / 2**20)
    assert numbers["comm/encode_ms"] > 0


def _saved(mesh: Mesh, spec: Compressed, steps: int) -> tuple[dict, list[torch.Tensor]]:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    for step in range(steps):
        module.zero_grad()
        scenario.backward(ddp, mesh, step)
    carried = {name: value.clone() for name, value in spec.carried(state, module).items()}
    module.zero_grad()
    scenario.backward(ddp, mesh, steps)
    return carried, [p.grad.clone() for p in module.parameters()]


def _resumed(
    mesh: Mesh, spec: Compressed, stored: list[dict], same: bool, steps: int
) -> tuple[dict, list[torch.Tensor]]:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    scenario.backward(ddp, mesh, 77)  # a pass for nothing, after which DDP has cut its buckets
    spec.resume(state, module, stored, mesh.rank if same else None)
    carried = {name: value.clone() for name, value in spec.carried(state, module).items()}
    module.zero_grad()
    scenario.backward(ddp, mesh, steps)
    return carried, [p.grad.clone() for p in module.parameters()]


@pytest.mark.parametrize("spec", HOOKS)
def test_a_resumed_hook_sends_bitwise_what_it_would_have_sent(workers, spec):
    saved = workers(3, _saved, spec, 5)
    resumed = workers(3, _resumed, spec, [carried for carried, _ in saved], True, 5)
    for (_, expected), (_, got) in zip(saved, resumed, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 3)])
@pytest.mark.parametrize("spec", HOOKS[:6])
def test_another_number_of_ranks_conserves_what_was_pending(workers, spec, old, new):
    saved = [carried for carried, _ in workers(old, _saved, spec, 4)]
    resumed = [carried for carried, _ in workers(new, _resumed, spec, saved, False, 4)]
    pending = [name for name in saved[0] if name.endswith("/residual")]
    assert pending
    for name in pending:
        before = torch.stack([rank[name] for rank in saved]).mean(0)
        after = torch.stack([rank[name] for rank in resumed]).mean(0)
        torch.testing.assert_close(after, before)


def _as_any_program(mesh: Mesh) -> bool:
    state, hook = TopK(ratio=0.01).build(mesh.groups["data"])
    ddp = DistributedDataParallel(scenario.net(), process_group=mesh.groups["data"])
    ddp.register_comm_hook(state, hook)
    scenario.backward(ddp, mesh, 0)
    return True


def test_two_lines_are_enough_in_any_program(workers):
    assert workers(2, _as_any_program) == [True, True]


def test_fp16_and_error_feedback_are_refused_together(make_run, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError) as caught:
        make_run("precision=fp16", "comm=int8")
    assert str(caught.value) == (
        "comm.error_feedback: fp16 changes its loss scale, and what is pending would keep the old one; use"
        " precision=bf16, or comm.error_feedback=false"
    )
    assert make_run("precision=fp16", "comm=int8", "comm.error_feedback=false").precision == "fp16"
