"""How diloco's fragments travel: each once a period, under the steps that follow, and never unseen."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from tests.sync import scenario
from tests.sync.scenario import Case, adamw, sgd
from trainer.mesh import Mesh
from trainer.sync.diloco import DiLoCo


def _sent(mesh: Mesh, rule: DiLoCo, steps: int) -> list[list[str]]:
    """The parameters that a rank hands to the hook in each step."""
    case = Case(sgd, steps=steps)
    replica = scenario.begin(mesh, rule, case).replica
    names = {id(p): name for name, p in replica.model.named_parameters()}
    found: list[list[str]] = []

    def hook(state, bucket):  # DDP inspects annotations
        found[-1] += [names[id(p)] for p in bucket.parameters()]
        return replica.hook(state, bucket)

    synchroniser = rule.attach(dataclasses.replace(replica, hook=hook))
    for step in range(steps):
        found.append([])
        inputs, targets = scenario.batch(mesh, step, case.dtype)
        case.loss(synchroniser.module(inputs), targets).backward()
        synchroniser.step()
    return found


def test_every_parameter_travels_exactly_once_a_period(workers):
    everything = sorted(name for name, _ in scenario.Tied().named_parameters())
    rule = DiLoCo(period=10, fragments=4, delay=2, alpha=0.5)
    for sent in workers(2, _sent, rule, 40):
        for first in (0, 10, 20, 30):
            period = sent[first : first + 10]
            assert [bool(names) for names in period] == [number in (2, 5, 7, 10) for number in range(1, 11)]
            assert sorted(sum(period, [])) == everything


class _Held:
    """A hook whose averages arrive when they are released, and not before."""

    def __init__(self, replica: Any) -> None:
        self.replica, self.held = replica, []

    def send(self, state, bucket):  # DDP inspects annotations
        arrived: torch.futures.Future[Tensor] = torch.futures.Future()
        self.held.append((arrived, self.replica.hook(state, bucket)))
        return arrived

    def release(self) -> None:
        for arrived, average in self.held:
            arrived.set_result(average.wait())
        self.held = []


def _travel(mesh: Mesh) -> list[int]:
    """The number of chunks that were under way at the end of each step, none of which anybody waited for."""
    rule, case = DiLoCo(period=4, delay=2, alpha=0.5), Case(sgd, steps=12)
    replica = scenario.begin(mesh, rule, case).replica
    held = _Held(replica)
    synchroniser = rule.attach(dataclasses.replace(replica, hook=held.send))
    counts = []
    for step in range(12):
        inputs, targets = scenario.batch(mesh, step, case.dtype)
        case.loss(synchroniser.module(inputs), targets).backward()
        if step % 4 == 1:
            held.release()  # it is due at the end of this step
        synchroniser.step()
        counts.append(len(held.held))
    held.release()
    synchroniser.finish()
    return counts


def test_an_exchange_has_its_delay_to_travel_under_the_next_steps(workers):
    for counts in workers(2, _travel):
        assert counts == [0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1]


class _Seen(torch.futures.Future):
    """An average that knows whether it has been waited for."""

    waited = False

    def wait(self) -> Any:
        self.waited = True
        return super().wait()


def _rest(mesh: Mesh) -> tuple[bool, bool]:
    """Whether a chunk under way has been waited for, before `whole` and within it."""
    rule, case = DiLoCo(period=4, delay=2, alpha=0.5), Case(sgd, steps=4)
    replica = scenario.begin(mesh, rule, case).replica
    average = _Seen()

    def hook(state, bucket):  # DDP inspects annotations
        average.set_result(replica.hook(state, bucket).wait())
        return average

    synchroniser = rule.attach(dataclasses.replace(replica, hook=hook))
    for step in range(4):
        inputs, targets = scenario.batch(mesh, step, case.dtype)
        case.loss(synchroniser.module(inputs), targets).backward()
        synchroniser.step()
    before = average.waited
    with synchroniser.whole():
        return before, average.waited


def test_within_whole_the_hook_is_at_rest(workers):
    assert workers(2, _rest) == [(False, True)] * 2


def _bytes(mesh: Mesh, rule: DiLoCo) -> float:
    case = Case(adamw, steps=24)
    training = scenario.begin(mesh, rule, case)
    scenario.run(training, mesh, case, range(24))
    training.synchroniser.finish()
    training.replica.meter.begin_step()
    training.replica.meter.end_step()
    sent = sum(step.sums["bytes"] for step in training.replica.meter.read())
    training.close()
    return sent


def test_fragments_send_as_much_in_a_period_as_the_whole(workers):
    whole = workers(2, _bytes, DiLoCo(period=6))[0]
    assert whole > 0
    assert workers(2, _bytes, DiLoCo(period=6, fragments=3, delay=1, alpha=0.5))[0] == whole
