"""The largest elements travel: which, in how many bytes, with which momentum."""

from __future__ import annotations

import pytest
import torch

from tests.comm import scenario
from trainer.comm.topk import CHUNK, TopK, message_bytes, pack, unpack
from trainer.mesh import Mesh
from trainer.spec import ConfigError


def _one_step(mesh: Mesh, spec: TopK) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(own, result) for own, _, _, result in scenario.mass(mesh, spec, 1, dtype=torch.float32)[0].values()]


def test_one_rank_sends_the_k_largest_of_a_bucket(workers):
    (parts,) = workers(1, _one_step, TopK(ratio=0.05))
    own, sent = (torch.cat([part.flatten() for part in side]) for side in zip(*parts, strict=True))
    assert int((sent != 0).sum()) == 0.05 * len(own)
    assert own[sent == 0].abs().max() <= own[sent != 0].abs().min()
    assert torch.equal(own[sent != 0], sent[sent != 0])


def test_a_message_says_what_was_put_into_it():
    numel = 3 * CHUNK - 5
    indices = torch.tensor([0, 7, CHUNK - 1, CHUNK, 2 * CHUNK + 17, numel - 1])
    values = torch.tensor([1.0, -2.0, 3.0, 4.0, -5.0, 6.0])
    message = pack(indices, values, numel)
    assert len(message) == message_bytes(6, numel, 4) == 3 * 4 + 6 * 6
    got_indices, got_values = unpack(message, 6, numel, torch.float32, torch.float64)
    assert torch.equal(got_indices, indices)
    assert torch.equal(got_values, values.double())


def test_the_ratio_falls_geometrically_to_its_end():
    codec = TopK(ratio=0.0025, warmup_steps=10, ramp_steps=2).codec()
    assert [round(codec.ratio(step), 6) for step in (10, 11, 12, 99)] == [0.25, 0.025, 0.0025, 0.0025]


def _repeated(mesh: Mesh, spec: TopK, steps: int) -> list[torch.Tensor]:
    """The same gradient in every step: what has been delivered in all."""
    module = scenario.net()
    ddp, _ = scenario.wrap(module, mesh, spec)
    total = [torch.zeros_like(p) for p in module.parameters()]
    for _ in range(steps):
        module.zero_grad()
        scenario.backward(ddp, mesh, 0)
        for sum_so_far, p in zip(total, module.parameters(), strict=True):
            sum_so_far += p.grad
    return total


def test_momentum_correction_delivers_what_momentum_would(workers):
    """With everything sent at once (ratio 1) momentum factor masking clears the velocity, so each step is the gradient;
    with few elements sent, a coordinate that waits gathers velocity."""
    plain = workers(1, _repeated, TopK(ratio=1.0), 6)[0]
    masked = workers(1, _repeated, TopK(ratio=1.0, momentum=0.9), 6)[0]
    for a, b in zip(plain, masked, strict=True):
        torch.testing.assert_close(a, b)
    waiting = workers(1, _repeated, TopK(ratio=0.05, momentum=0.9), 20)[0]
    without = workers(1, _repeated, TopK(ratio=0.05), 20)[0]
    assert sum(w.abs().sum() for w in waiting) > 1.5 * sum(w.abs().sum() for w in without)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["comm.ratio=0"],
            "comm.ratio: 0 is not allowed: input should be greater than 0; ratio is the share of elements that travel",
        ),
        (
            ["comm.ratio=1.5"],
            "comm.ratio: 1.5 is not allowed: input should be less than or equal to 1; ratio is the share of elements"
            " that travel",
        ),
        (
            ["comm.momentum=0.9"],
            "comm.momentum: 0.9 here and 0.9 in the optimizer would apply momentum twice; set optimizer.momentum=0",
        ),
        (
            ["comm.momentum=0.9", "optimizer.momentum=0", "comm.error_feedback=false"],
            "comm.momentum: its correction lives in the residual; set comm.error_feedback=true",
        ),
    ],
)
def test_what_cannot_work_is_refused(make_run, overrides, line):
    with pytest.raises(ConfigError) as caught:
        make_run("comm=topk", *overrides)
    assert str(caught.value) == line
