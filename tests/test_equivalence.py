"""The same answer everywhere: data parallelism gives the weights that one process gives."""

from __future__ import annotations

import pytest
import torch

from trainer.comm.allreduce import AllReduce
from trainer.mesh import Mesh
from trainer.model.base import Model
from trainer.model.gpt import GPT
from trainer.model.mlp import MLP
from trainer.model.vit import ViT
from trainer.optimizer.sgd import SGD
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import Executor
from trainer.sample import Sample
from trainer.sync.strict import Strict

IMAGE, TOKENS = Sample("image", (1, 8, 8), 10), Sample("tokens", (16,), 64)
MODELS = [
    pytest.param(MLP(width=32), IMAGE, id="mlp"),
    pytest.param(ViT(depth=2, width=32), IMAGE, id="vit"),
    pytest.param(GPT(depth=2, width=32), TOKENS, id="gpt"),
]
# Sums of a few hundred terms in another order: machine precision times the number of steps and terms.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}


def _batch(sample: Sample, dtype: torch.dtype, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    if sample.kind == "tokens":
        tokens = torch.randint(sample.classes, (8, sample.shape[0] + 1), generator=generator)
        return tokens[:, :-1], tokens[:, 1:]
    images = torch.randn(8, *sample.shape, generator=generator, dtype=torch.float64).to(dtype)
    return images, torch.randint(sample.classes, (8,), generator=generator)


def _train(mesh: Mesh, model: Model, sample: Sample, dtype: torch.dtype, microbatches: int, max_norm: float | None):
    torch.manual_seed(0)
    net = model.build(sample).to(dtype)
    meter, group, size = Meter(HostClock()), mesh.groups["data"], mesh.sizes["data"]
    state, hook = AllReduce().build(group)
    timed = Timed(meter, state, hook, lambda nbytes: AllReduce().bytes_sent(state, nbytes, size))
    axis = DataAxis(bucket_cap_mb=0.02)
    executor = Executor(
        replicate(net, axis, group, timed, timed_hook), model.loss, torch.device("cpu"), "fp32", microbatches, meter
    )
    optimizer = SGD(lr=0.1).build(net)
    synchroniser = Strict().attach(net, optimizer, executor.scaler, max_norm)
    share = 8 // size
    for step in range(4):
        inputs, targets = (part[mesh.rank * share :][:share] for part in _batch(sample, dtype, step))
        executor.forward_backward(inputs, targets)
        synchroniser.step()
    return {name: value.detach().clone() for name, value in net.named_parameters()}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize(("model", "sample"), MODELS)
def test_replicas_end_with_the_weights_of_one_process(workers, model, sample, dtype):
    alone = workers(1, _train, model, sample, dtype, 1, None)[0]
    for size in (2, 4):
        replicas = workers(size, _train, model, sample, dtype, 1, None)
        for name, value in alone.items():
            torch.testing.assert_close(replicas[0][name], value, atol=TOLERANCE[dtype], rtol=0)
            assert all(torch.equal(replica[name], replicas[0][name]) for replica in replicas)


@pytest.mark.parametrize(("microbatches", "max_norm"), [(2, None), (4, 0.5)])
def test_accumulation_and_clipping_change_nothing(workers, microbatches, max_norm):
    model = MLP(width=32)
    alone = workers(1, _train, model, IMAGE, torch.float64, 1, max_norm)[0]
    replica = workers(2, _train, model, IMAGE, torch.float64, microbatches, max_norm)[0]
    for name, value in alone.items():
        torch.testing.assert_close(replica[name], value, atol=1e-12, rtol=0)
