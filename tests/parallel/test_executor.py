"""Micro-batches, precision, and when gradients travel."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from trainer.comm.allreduce import AllReduce
from trainer.mesh import Mesh
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import Executor, WholeExecutor, scaler_for

CPU = torch.device("cpu")


def _executor(net: nn.Module, microbatches: int = 1, precision: str = "fp32", meter: Meter | None = None) -> Executor:
    accumulate = getattr(net, "no_sync", contextlib.nullcontext)
    scaler = scaler_for(precision, CPU)
    scale = 1 / microbatches
    return WholeExecutor(
        net,
        nn.functional.mse_loss,
        lambda output: output,
        scale,
        CPU,
        precision,
        microbatches,
        meter or Meter(HostClock()),
        scaler,
        accumulate,
    )


def test_the_loss_and_gradient_are_those_of_the_whole_share():
    net = nn.Linear(3, 1, dtype=torch.float64)
    x, y = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 1, dtype=torch.float64)
    whole = _executor(net).forward_backward(x, y)
    gradient = net.weight.grad.clone()
    net.zero_grad()
    pieces = _executor(net, microbatches=4).forward_backward(x, y)
    torch.testing.assert_close(pieces, whole, atol=1e-14, rtol=0)
    torch.testing.assert_close(net.weight.grad, gradient, atol=1e-14, rtol=0)


def test_bf16_computes_in_bf16_and_keeps_fp32_weights():
    net = nn.Linear(3, 1)
    executor = _executor(net, precision="bf16")
    assert executor.predict(torch.randn(2, 3)).dtype == torch.bfloat16
    executor.forward_backward(torch.randn(2, 3), torch.randn(2, 1))
    assert net.weight.grad.dtype == torch.float32


def _reductions(mesh: Mesh, microbatches: int) -> list[float]:
    meter, group = Meter(HostClock()), mesh.groups["data"]
    timed = Timed(meter, *AllReduce().build(group), lambda bytes: float(bytes))
    net = replicate(nn.Linear(4, 1, bias=False), DataAxis(), group, timed, timed_hook)
    executor = _executor(net, microbatches, meter=meter)
    for _ in range(3):
        meter.begin_step()
        executor.forward_backward(torch.randn(8, 4), torch.randn(8, 1))
        meter.end_step()
    # The last bucket's callback may run a moment after the backward pass has seen it arrive.
    steps = []
    while len(steps) < 3:
        steps += meter.read()
    return [step.sums["bytes"] for step in steps]


def test_only_the_last_microbatch_reduces(workers):
    assert workers(2, _reductions, 4)[0] == [16.0, 16.0, 16.0]
