"""The guard makes a hook send more, and what was pending is not lost."""

from __future__ import annotations

import torch

from tests.sync import scenario
from tests.sync.scenario import Case, sgd
from trainer.comm.onebit import OneBit
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.sync.strict import Strict


def _ease(mesh: Mesh) -> tuple[list[str | None], float, float, torch.Tensor]:
    """Words of every pull, what is pending before the last one and after a step behind it, and a weight."""
    spec = TopK(ratio=0.05, min_numel=8)
    case = Case(sgd, comm=spec, dtype=torch.float32)
    training = scenario.begin(mesh, Strict(), case)
    state = training.replica.state.state
    lever = spec.lever(state)

    def pending() -> float:
        kept = [state.memory.of(p).get("residual") for p in training.net.parameters()]
        return sum(value.abs().sum().item() for value in kept if value is not None)

    scenario.run(training, mesh, case, range(4))
    words = [lever.tighten(), lever.ease()]
    scenario.run(training, mesh, case, range(4, 8))
    before = pending()
    words += [lever.ease(), lever.ease(), lever.ease()]
    scenario.run(training, mesh, case, range(8, 9))
    after = pending()
    words.append(lever.tighten())
    scenario.run(training, mesh, case, range(9, 12))
    training.close()
    return words, before, after, training.net.first.weight.detach()


def test_a_larger_share_travels_by_degrees_and_at_last_all_that_is_pending(workers):
    one, other = workers(2, _ease)
    words, before, after, weight = one
    assert words == [
        None,
        "comm ratio 0.05 -> ratio 0.2",
        "comm ratio 0.2 -> ratio 0.8",
        "comm ratio 0.8 -> dense",
        None,
        "comm dense -> ratio 0.8",
    ]
    assert before > 0
    assert after == 0
    assert torch.equal(weight, other[3])


def test_a_quantiser_is_dense_in_one_step():
    assert [words for words, _ in OneBit().degrees()] == ["dense"]
