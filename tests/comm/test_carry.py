"""What a hook carries goes into a checkpoint and comes back: bitwise, or shared out among another number of ranks."""

from __future__ import annotations

import pickle

import pytest
import torch

from tests.comm import scenario
from tests.comm.scenario import COMPRESSED
from trainer.comm.compressed import Compressed
from trainer.mesh import Mesh

STEPS = 5


def _carried(spec: Compressed, state, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in spec.carried(state, module).items()}


def _saved(mesh: Mesh, spec: Compressed) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """What is carried after some steps, and the gradients of the step after them."""
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, spec)
    for step in range(STEPS):
        module.zero_grad()
        scenario.backward(ddp, mesh, step)
    carried = _carried(spec, state, module)
    module.zero_grad()
    scenario.backward(ddp, mesh, STEPS)
    return carried, [p.grad.clone() for p in module.parameters()]


def _resumed(mesh: Mesh, pickled: bytes, same: bool) -> dict[str, tuple[dict[str, torch.Tensor], list[torch.Tensor]]]:
    """The same of new hooks that take over what the ranks before them stored."""
    stored, seen = pickle.loads(pickled), {}
    for name, spec in COMPRESSED.items():
        module = scenario.net()
        ddp, state = scenario.wrap(module, mesh, spec)
        scenario.backward(ddp, mesh, 77)  # a pass for nothing, after which DDP has cut its buckets
        spec.resume(state, module, stored[name], mesh.rank if same else None)
        carried = _carried(spec, state, module)
        module.zero_grad()
        scenario.backward(ddp, mesh, STEPS)
        seen[name] = carried, [p.grad.clone() for p in module.parameters()]
    return seen


def _stored(saved: list[dict]) -> dict[str, list[dict[str, torch.Tensor]]]:
    """What all ranks carried, by hook."""
    return {name: [rank[name][0] for rank in saved] for name in COMPRESSED}


def test_a_resumed_hook_sends_bitwise_what_it_would_have_sent(workers):
    saved = workers(3, scenario.each, _saved, COMPRESSED)
    # Pickled here: the way to a new process would make a shared file of each tensor, of which there are too many.
    resumed = workers(3, _resumed, pickle.dumps(_stored(saved)), True)
    for before, after in zip(saved, resumed, strict=True):
        for name in COMPRESSED:
            assert all(torch.equal(a, b) for a, b in zip(before[name][1], after[name][1], strict=True)), name


@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 3)])
def test_another_number_of_ranks_conserves_what_was_pending(workers, old, new):
    stored = _stored(workers(old, scenario.each, _saved, COMPRESSED))
    resumed = workers(new, _resumed, pickle.dumps(stored), False)
    for name, ranks in stored.items():
        pending = [entry for entry in ranks[0] if entry.endswith("/residual")]
        assert pending, name
        for entry in pending:
            before = torch.stack([rank[entry] for rank in ranks]).mean(0)
            after = torch.stack([rank[name][0][entry] for rank in resumed]).mean(0)
            torch.testing.assert_close(after, before)
