"""Half the bytes, with the range of full precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.comm import scenario
from trainer.comm.bf16 import BF16
from trainer.mesh import Mesh


def _mean_of(mesh: Mesh, value: float, dtype: torch.dtype) -> torch.Tensor:
    net = nn.Linear(1, 3, bias=False, dtype=dtype)
    ddp = DistributedDataParallel(net, process_group=mesh.groups["data"])
    ddp.register_comm_hook(*BF16().build(mesh.groups["data"]))
    ddp(torch.full((1, 1), value, dtype=dtype)).sum().backward()
    return net.weight.grad


def test_gradients_of_1e38_do_not_overflow(workers):
    for gradient in workers(4, _mean_of, 1e38, torch.float32):
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, torch.full((3, 1), 1e38), rtol=1e-2, atol=0)


def test_a_bucket_of_16_bits_travels_as_it_is(workers):
    assert workers(2, _mean_of, 0.5, torch.bfloat16)[0].dtype == torch.bfloat16


def _bytes(mesh: Mesh, dtypes: list[torch.dtype]) -> list[tuple[float, float]]:
    return [scenario.bytes_of_a_step(mesh, BF16(), dtype) for dtype in dtypes]


def test_every_dtype_sends_two_bytes_an_element(workers):
    for size in (2, 3):
        for reported, sent in workers(size, _bytes, [torch.float64, torch.float32, torch.bfloat16])[0]:
            assert reported == pytest.approx(2 * (size - 1) / size * 2 * 5 * 1640)
            assert reported == pytest.approx(sent)
