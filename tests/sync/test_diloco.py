"""An outer optimizer steps on what replicas have changed by themselves, all at once or fragment by fragment."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.sync import scenario
from tests.sync.scenario import Case, adamw, sgd
from tests.sync.simulation import Parameters, mean, simulate
from tests.sync.test_local_sgd import carry_over
from trainer.comm.onebit import OneBit
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError
from trainer.sync.diloco import DiLoCo
from trainer.sync.local_sgd import LocalSGD

STREAM = DiLoCo(period=6, warmup_steps=3, fragments=2, delay=2, alpha=0.25)
# The test model's layers are conv, norm, first, second (a bias; its weight is the first's) and out.
FRAGMENTS = (
    ("conv.weight", "conv.bias", "first.weight", "first.bias", "out.weight", "out.bias"),
    ("norm.weight", "norm.bias", "second.bias"),
)


class _Quadratic(nn.Module):
    """A loss of curvature / 2 times x squared."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, curvature: float) -> Tensor:
        return curvature / 2 * self.x.square().sum()


def _descend(mesh: Mesh, rule: DiLoCo, rate: float, steps: int) -> list[float]:
    case = Case(lambda net: torch.optim.SGD(net.parameters(), lr=rate), model=_Quadratic, steps=steps)
    training = scenario.begin(mesh, rule, case)
    points = []
    for _ in range(steps):
        training.synchroniser.module(1.0 + mesh.rank).backward()
        training.synchroniser.step()
        points.append(training.net.x[0].item())
    training.close()
    return points


@pytest.mark.parametrize("size", [1, 2])
def test_the_outer_step_on_a_quadratic_is_that_of_the_papers(workers, size):
    rule, rate = DiLoCo(period=3, outer_lr=0.7, outer_momentum=0.9), 0.1
    expected: list[list[float]] = [[] for _ in range(size)]
    x, velocity = 1.0, 0.0
    for _ in range(4):
        for rank, points in enumerate(expected):
            points += [x * (1 - rate * (1 + rank)) ** number for number in (1, 2)]
        difference = x - sum(x * (1 - rate * (1 + rank)) ** 3 for rank in range(size)) / size
        velocity = 0.9 * velocity + difference
        x -= 0.7 * (difference + 0.9 * velocity)
        for points in expected:
            points.append(x)
    for rank, points in enumerate(workers(size, _descend, rule, rate, 12)):
        assert points == pytest.approx(expected[rank], abs=1e-14)


def _signs(mesh: Mesh, period: int) -> tuple[dict, dict]:
    case = Case(adamw, steps=12)
    plain = DiLoCo(period=period, outer_lr=1.0, outer_momentum=0.0)
    return scenario.train(mesh, LocalSGD(period=period), case), scenario.train(mesh, plain, case)


@pytest.mark.parametrize("period", [1, 4])
def test_a_whole_outer_step_without_momentum_is_parameter_averaging(workers, period):
    for averaged, outer in workers(2, _signs, period):
        assert all(torch.equal(outer[key], value) for key, value in averaged.items())


class _Streaming:
    """Algorithm 2 of Streaming DiLoCo on plain dictionaries: what has been sent is applied `delay` steps later."""

    def __init__(self, spec: DiLoCo, fragments: tuple[tuple[str, ...], ...], turns: tuple[int, ...]) -> None:
        self.spec, self.fragments, self.turns = spec, fragments, turns
        torch.manual_seed(0)
        self.before = {n: p.detach().clone() for n, p in scenario.Tied().double().named_parameters()}
        self.velocity = {name: torch.zeros_like(value) for name, value in self.before.items()}
        self.due: dict[int, dict[str, Tensor]] = {}

    def meet(self, number: int, replicas: Parameters) -> None:
        for fragment, turn in zip(self.fragments, self.turns, strict=True):
            if number % self.spec.period == turn:
                differences = {name: self.before[name] - mean(replicas, name) for name in fragment}
                self.due[number + self.spec.delay] = differences
        for name, difference in self.due.pop(number, {}).items():
            self.velocity[name] = self.spec.outer_momentum * self.velocity[name] + difference
            step = difference + self.spec.outer_momentum * self.velocity[name]
            self.before[name] = self.before[name] - self.spec.outer_lr * step
            for parameters in replicas:
                local = parameters[name]
                local.copy_(self.spec.alpha * local + (1 - self.spec.alpha) * self.before[name])


WHOLE = (FRAGMENTS[0] + FRAGMENTS[1],)


@pytest.mark.parametrize(
    ("rule", "fragments", "turns"),
    [
        (DiLoCo(period=5), WHOLE, (0,)),
        (DiLoCo(period=5, delay=3, alpha=0.5), WHOLE, (0,)),
        (DiLoCo(period=6, fragments=2), FRAGMENTS, (3, 0)),
        (DiLoCo(period=6, fragments=2, delay=2, alpha=0.25), FRAGMENTS, (3, 0)),
        # Turns three apart, and one exchange arrives when the next leaves.
        (DiLoCo(period=7, fragments=2, delay=3, alpha=0.5), FRAGMENTS, (3, 0)),
    ],
    ids=["classical", "delay", "fragments", "streaming", "uneven"],
)
def test_every_step_is_that_of_the_reference(workers, rule, fragments, turns):
    case = Case(adamw, steps=24)
    for rank, history in enumerate(workers(2, scenario.history, rule, case)):
        expected = simulate(case, 2, 0, _Streaming(rule, fragments, turns).meet, own=rank)
        for step, (mine, theirs) in enumerate(zip(history, expected, strict=True)):
            for name, value in theirs.items():
                torch.testing.assert_close(mine[name], value, atol=1e-10, rtol=0, msg=f"{name} after step {step + 1}")


def _around_an_evaluation(mesh: Mesh) -> tuple[dict, dict, dict, dict]:
    case = Case(adamw, steps=14)
    training = scenario.begin(mesh, STREAM, case)
    scenario.run(training, mesh, case, range(13))  # a fragment is under way
    before = scenario.state(training)
    with training.synchroniser.whole():
        within = scenario.state(training)
    after = scenario.state(training)
    scenario.run(training, mesh, case, range(13, 14))
    training.synchroniser.finish()
    end = scenario.state(training)
    training.close()
    return before, within, after, end


def test_an_evaluation_sees_the_average_while_a_fragment_travels_and_the_end_is_one_for_all(workers):
    ranks = workers(3, _around_an_evaluation)
    weights = [f"model/{name}" for name, _ in scenario.Tied().named_parameters()]
    for before, within, after, end in ranks:
        assert all(torch.equal(after[key], value) for key, value in before.items())
        for key in weights:
            assert torch.equal(within[key], ranks[0][1][key])
            assert torch.equal(end[key], ranks[0][3][key])
            torch.testing.assert_close(within[key], torch.stack([rank[0][key] for rank in ranks]).mean(0))


@pytest.mark.parametrize("at", [2, 3, 5, 7, 13])
def test_what_is_under_way_and_the_outer_momentum_are_carried_to_the_bit(workers, at):
    for whole, rest in workers(2, carry_over, STREAM, Case(adamw, steps=20), at):
        assert all(torch.equal(rest[key], value) for key, value in whole.items())


def _lossy(mesh: Mesh) -> list[dict]:
    rule = DiLoCo(period=6, fragments=2, delay=2, alpha=0.25)
    hooks = (TopK(ratio=0.1, min_numel=8), OneBit(min_numel=8))
    return [scenario.train(mesh, rule, Case(sgd, comm=hook, dtype=torch.float32)) for hook in hooks]


def test_a_lossy_hook_works_on_fragments_and_replicas_stay_alike(workers):
    one, other = workers(2, _lossy)
    for mine, theirs in zip(one, other, strict=True):
        assert all(value.isfinite().all() for value in mine.values())
        assert all(torch.equal(mine[key], theirs[key]) for key in mine if key.startswith("model/"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["sync.period=50", "sync.warmup_steps=10", "steps=59"],
            "sync.period: replicas would come together every 50 steps after 10 steps of warm-up, and the run has 59;"
            " use a shorter period, or sync=strict",
        ),
        (
            ["comm=noop"],
            "comm: noop sends nothing, so replicas that take steps of their own would never come together; use"
            " comm=allreduce, or sync=strict to measure the ceiling",
        ),
        (
            ["sync.fragments=9", "sync.period=8"],
            "sync.fragments: 9 do not fit into sync.period=8, of which each needs a step of its own; use fewer"
            " fragments or a longer period",
        ),
        (
            ["sync.fragments=4", "sync.delay=13"],
            "sync.delay: 13 steps are no less than the 12.5 until the next exchange (sync.period / sync.fragments); use"
            " a shorter delay, fewer fragments or a longer period",
        ),
        (
            ["sync.delay=50"],
            "sync.delay: 50 steps are no less than the 50 until the next exchange (sync.period / sync.fragments); use a"
            " shorter delay, fewer fragments or a longer period",
        ),
        (
            ["sync.fragments=12"],
            "sync.fragments: 12 fragments are more than the model's 11 layers; use at most sync.fragments=11",
        ),
        (
            ["sync.fragments=4", "model=gpt"],
            "model: GPT reads tokens samples, but data gives image of shape (1, 8, 8); choose another model or data",
        ),
    ],
)
def test_what_cannot_work_is_refused(make_run, overrides, message):
    with pytest.raises(ConfigError) as caught:
        make_run("sync=diloco", *overrides)
    assert str(caught.value) == message


def test_a_mixture_that_never_hears_of_the_others_is_refused(make_run):
    with pytest.raises(ConfigError, match=r"^sync.alpha: 1.0 is not allowed"):
        make_run("sync=diloco", "sync.alpha=1.0")
