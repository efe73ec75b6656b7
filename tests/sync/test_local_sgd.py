"""Replicas take steps of their own and are averaged now and then."""

from __future__ import annotations

import copy
import dataclasses
import logging
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.sync import scenario
from tests.sync.scenario import Case, adamw, sgd
from tests.sync.simulation import Parameters, mean, simulate
from trainer.comm.onebit import OneBit
from trainer.comm.powersgd import PowerSGD
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.spec import ConfigError
from trainer.sync.local_sgd import LocalSGD
from trainer.sync.strict import Strict


def plain(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.01, weight_decay=0.01)


def _both(mesh: Mesh, case: Case) -> tuple[dict, dict]:
    return scenario.train(mesh, Strict(), case), scenario.train(mesh, LocalSGD(period=1), case)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_averaging_each_step_of_plain_sgd_is_strict(workers, size):
    ranks = workers(size, _both, Case(plain))
    # The mean of weights is the mean of gradients to rounding; buffers are the first replica's.
    strict, averaged = ranks[0]
    for key, value in strict.items():
        torch.testing.assert_close(averaged[key], value, atol=1e-12, rtol=0, msg=key)
    for _, other in ranks[1:]:
        assert all(torch.equal(other[key], value) for key, value in averaged.items())


@pytest.mark.parametrize(
    "case",
    [
        Case(sgd, steps=17),
        Case(adamw, steps=17),
        Case(sgd, steps=17, microbatches=3),
        Case(sgd, steps=17, max_norm=0.05),
    ],
    ids=["sgd", "adamw", "accumulation", "clipping"],
)
def test_every_step_is_that_of_replicas_which_are_averaged_every_fifth(workers, case):
    warmup, period = 4, 5

    def meet(number: int, replicas: Parameters) -> None:
        if number % period == 0:
            for name in replicas[0]:
                average = mean(replicas, name)
                for parameters in replicas:
                    parameters[name].copy_(average)

    for rank, history in enumerate(workers(2, scenario.history, LocalSGD(period=period, warmup_steps=warmup), case)):
        expected = simulate(case, 2, warmup, meet, own=rank)
        for step, (mine, theirs) in enumerate(zip(history, expected, strict=True)):
            for name, value in theirs.items():
                torch.testing.assert_close(mine[name], value, atol=1e-11, rtol=0, msg=f"{name} after step {step + 1}")


def _around_an_evaluation(mesh: Mesh) -> tuple[dict, dict, dict, dict]:
    """Parameters and buffers right after a local step, within `whole` and after it; and at the end."""
    case = Case(sgd, steps=7)
    training = scenario.begin(mesh, LocalSGD(period=4), case)
    scenario.run(training, mesh, case, range(6))
    before = scenario.state(training)
    with training.synchroniser.whole():
        for buffer in training.net.buffers():
            buffer.zero_()  # as when the trainer gives all the first replica's
        within = scenario.state(training)
    after = scenario.state(training)
    scenario.run(training, mesh, case, range(6, 7))
    training.synchroniser.finish()
    end = scenario.state(training)
    training.close()
    return before, within, after, end


def test_an_evaluation_sees_the_average_and_leaves_each_replica_its_own(workers):
    ranks = workers(3, _around_an_evaluation)
    weights = [f"model/{name}" for name, _ in scenario.Tied().named_parameters()]
    for before, within, after, _ in ranks:
        assert all(torch.equal(after[key], value) for key, value in before.items())
        for key in weights:
            assert torch.equal(within[key], ranks[0][1][key])
            torch.testing.assert_close(within[key], torch.stack([rank[0][key] for rank in ranks]).mean(0))
    assert not torch.equal(ranks[0][0][weights[0]], ranks[1][0][weights[0]])
    # Nothing is shared between averagings, not even buffers.
    assert not torch.equal(ranks[0][0][scenario.OWN[0]], ranks[1][0][scenario.OWN[0]])


def test_after_the_last_step_all_replicas_are_one(workers):
    (*_, first), *others = workers(3, _around_an_evaluation)
    for *_, other in others:
        assert all(torch.equal(other[key], value) for key, value in first.items() if key.startswith("model/"))


def _bytes(mesh: Mesh, rule: Any) -> list[float]:
    case = Case(adamw, steps=16)
    training = scenario.begin(mesh, rule, case)
    scenario.run(training, mesh, case, range(16))
    sent = [step.sums["bytes"] for step in training.replica.meter.read()]
    training.close()
    return sent


def test_bytes_fall_by_the_period(workers):
    strict = workers(2, _bytes, Strict())[0]
    local = workers(2, _bytes, LocalSGD(period=4))[0]
    assert local == [0, 0, 0, strict[0]] * 4
    warm = workers(2, _bytes, LocalSGD(period=4, warmup_steps=6))[0]
    assert warm == [strict[0]] * 6 + [0, 0, 0, strict[0]] * 2 + [0, 0]


def _lossy(mesh: Mesh) -> list[tuple[dict, dict]]:
    """Weights right after an averaging that lost something, and at the end."""
    found = []
    for hook in (TopK(ratio=0.1, min_numel=8), OneBit(min_numel=8), PowerSGD(rank=2, min_numel=8)):
        case = Case(sgd, comm=hook, dtype=torch.float32, steps=14)
        training = scenario.begin(mesh, LocalSGD(period=4), case)
        scenario.run(training, mesh, case, range(12))
        averaged = scenario.state(training)
        scenario.run(training, mesh, case, range(12, 14))
        training.synchroniser.finish()
        found.append((averaged, scenario.state(training)))
        training.close()
    return found


def test_a_lossy_hook_works_on_differences_and_replicas_stay_alike(workers):
    one, other = workers(2, _lossy)
    for (averaged, end), (its_averaged, its_end) in zip(one, other, strict=True):
        for mine, theirs in ((averaged, its_averaged), (end, its_end)):
            assert all(value.isfinite().all() for value in mine.values())
            assert all(torch.equal(mine[key], theirs[key]) for key in mine if key.startswith("model/"))


def carry_over(mesh: Mesh, rule: Any, case: Case, at: int) -> tuple[dict, dict]:
    """The end of a training, and of one that goes on from a checkpoint of the first after `at` steps."""
    first, second = scenario.begin(mesh, rule, case), scenario.begin(mesh, rule, case)
    # Something that must be forgotten, as the trainer's own first step for nothing.
    scenario.run(second, mesh, case, range(7))
    scenario.run(first, mesh, case, range(at))
    with first.synchroniser.whole():
        carried = {name: value.clone() for name, value in first.synchroniser.carried().items()}
        weights = copy.deepcopy(first.net.state_dict())
        # One rank's, for all.
        optimizer = [copy.deepcopy(first.replica.optimizer.state_dict())]
        dist.broadcast_object_list(optimizer, 0, group=mesh.control)
    with second.synchroniser.whole():
        second.net.load_state_dict(weights)
        second.replica.optimizer.load_state_dict(optimizer[0])
        second.synchroniser.resume([{}] * mesh.rank + [carried], mesh.rank)
    for training in (first, second):
        scenario.run(training, mesh, case, range(at, case.steps))
        training.synchroniser.finish()
    ends = scenario.state(first), scenario.state(second)
    first.close(), second.close()
    return ends


@pytest.mark.parametrize("at", [2, 3, 6, 7])
def test_a_replicas_own_weights_and_momentum_are_carried_to_the_bit(workers, at):
    for whole, rest in workers(2, carry_over, LocalSGD(period=3, warmup_steps=3), Case(adamw, steps=12), at):
        assert all(torch.equal(rest[key], value) for key, value in whole.items())


def _fewer(mesh: Mesh) -> tuple[list[str], dict, list[dict], dict]:
    """What two replicas carried, taken over by others whose number is another: log lines, weights, momenta."""
    rule, case = LocalSGD(period=4), Case(adamw, steps=12)
    training = scenario.begin(mesh, rule, case)
    scenario.run(training, mesh, case, range(6))
    own = [scenario.state(training)]
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("trainer.sync").addHandler(handler)
    with training.synchroniser.whole():
        everyone: list[Any] = [None, None]
        dist.all_gather_object(everyone, training.synchroniser.carried(), group=mesh.control)
        average = scenario.state(training)
        training.synchroniser.resume(everyone, None)
    after = scenario.state(training)
    scenario.run(training, mesh, case, range(6, 12))
    training.close()
    return lines, average, own, after


def test_another_number_of_replicas_goes_on_from_the_average(workers):
    ranks = workers(2, _fewer)
    message = "sync: the number of replicas has changed, so all go on from the average of their weights"
    assert [lines for lines, *_ in ranks] == [[message], []]
    key = "first.weight/exp_avg"
    momentum = (ranks[0][2][0][key] + ranks[1][2][0][key]) / 2
    for _, average, _, after in ranks:
        for name in dict(scenario.Tied().named_parameters()):
            assert torch.equal(after[f"model/{name}"], average[f"model/{name}"])
        torch.testing.assert_close(after[key], momentum, atol=1e-15, rtol=0)


def _overflowing(mesh: Mesh) -> tuple[bool, float, bool]:
    """Whether a step moved the weights, the loss scale after it, and whether a checkpoint gives that scale back."""
    case = Case(plain, model=lambda: nn.Linear(2, 1), dtype=torch.float32)
    replica = scenario.begin(mesh, Strict(), case).replica
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    rule = LocalSGD(period=8).attach(dataclasses.replace(replica, scaler=scaler))
    before = replica.model.weight.detach().clone()
    scaler.scale(rule.module(torch.ones(1, 2)).sum() * (float("inf") if mesh.rank else 1.0)).backward()
    rule.step()
    moved, scale = not torch.equal(replica.model.weight, before), scaler.get_scale()
    with rule.whole():
        carried = {name: value.clone() for name, value in rule.carried().items()}
        scaler.update(7.0)
        rule.resume([carried] * 2, mesh.rank)
    return moved, scale, scaler.get_scale() == scale


def test_a_gradient_that_overflows_is_its_replicas_own_affair(workers):
    assert workers(2, _overflowing) == [(True, 1024.0, True), (False, 512.0, True)]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["sync.period=8", "sync.warmup_steps=30", "steps=37"],
            "sync.period: replicas would come together every 8 steps after 30 steps of warm-up, and the run has 37; use"
            " a shorter period, or sync=strict",
        ),
        (
            ["sync.period=8", "steps=7"],
            "sync.period: replicas would come together every 8 steps, and the run has 7; use a shorter period, or"
            " sync=strict",
        ),
        (
            ["comm=noop"],
            "comm: noop sends nothing, so replicas that take steps of their own would never come together; use"
            " comm=allreduce, or sync=strict to measure the ceiling",
        ),
        (
            ["comm=topk", "sync.warmup_steps=10", "comm.warmup_steps=5"],
            "comm.warmup_steps: 5 is below sync.warmup_steps=10, so what was not sent of a gradient would be added to a"
            " difference of parameters; use comm.warmup_steps=10",
        ),
        (
            ["clip.max_norm=1", "clip.mode=previous_norm"],
            "clip.mode: the norm of the step before is for rules that update before the gradient's own is known; use"
            " clip.mode=global_norm",
        ),
        (
            ["steps=null", "epochs=null"],
            "steps: neither steps nor epochs is set; set one of them, for example steps=1000",
        ),
    ],
)
def test_what_cannot_work_is_refused(make_run, overrides, message):
    with pytest.raises(ConfigError) as caught:
        make_run("sync=local_sgd", *overrides)
    assert str(caught.value) == message


def test_a_compressing_hook_that_warms_up_as_long_is_welcome(make_run):
    make_run("sync=local_sgd", "sync.warmup_steps=10", "comm=topk", "comm.warmup_steps=10")


def test_no_period_is_refused(make_run):
    with pytest.raises(ConfigError, match=r"^sync.period: 0 is not allowed"):
        make_run("sync=local_sgd", "sync.period=0")
