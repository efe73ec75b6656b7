"""The same answer everywhere: data parallelism gives the weights that one process gives."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.sync import scenario
from tests.sync.scenario import Case
from trainer.mesh import Mesh
from trainer.model.base import Model
from trainer.model.gpt import GPT
from trainer.model.mlp import MLP
from trainer.model.vit import ViT
from trainer.optimizer.sgd import SGD
from trainer.parallel.base import DataAxis
from trainer.sample import Sample
from trainer.sync.base import Sync
from trainer.sync.partitioned import Partitioned
from trainer.sync.strict import Strict

IMAGE, TOKENS = Sample("image", (1, 8, 8), 10), Sample("tokens", (16,), 64)
MODELS = [
    pytest.param(MLP(width=32), IMAGE, id="mlp"),
    pytest.param(ViT(depth=2, width=32), IMAGE, id="vit"),
    pytest.param(GPT(depth=2, width=32), TOKENS, id="gpt"),
]
RULES = [pytest.param(Strict(), id="strict"), pytest.param(Partitioned(), id="partitioned")]
# Sums of a few hundred terms in another order: machine precision times the number of steps and terms.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}


def _batch(sample: Sample, dtype: torch.dtype, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    if sample.kind == "tokens":
        tokens = torch.randint(sample.classes, (8, sample.shape[0] + 1), generator=generator)
        return tokens[:, :-1], tokens[:, 1:]
    images = torch.randn(8, *sample.shape, generator=generator, dtype=torch.float64).to(dtype)
    return images, torch.randint(sample.classes, (8,), generator=generator)


def _train(mesh: Mesh, rule: Sync, model: Model, sample: Sample, case: Case):
    training = scenario.begin(mesh, rule, case._replace(loss=model.loss, model=functools.partial(model.build, sample)))
    share = 8 // mesh.sizes["data"]
    for step in range(4):
        inputs, targets = (part[mesh.rank * share :][:share] for part in _batch(sample, case.dtype, step))
        training.executor.forward_backward(inputs, targets)
        training.synchroniser.step()
    with training.synchroniser.whole():
        weights = {name: value.detach().clone() for name, value in training.net.named_parameters()}
    training.close()
    return weights


CASE = Case(SGD(lr=0.1).build, axis=DataAxis(bucket_cap_mb=0.02))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("model", "sample"), MODELS)
def test_replicas_end_with_the_weights_of_one_process(workers, model, sample, rule, dtype):
    case = CASE._replace(dtype=dtype)
    alone = workers(1, _train, Strict(), model, sample, case)[0]
    for size in (2, 4):
        replicas = workers(size, _train, rule, model, sample, case)
        for name, value in alone.items():
            torch.testing.assert_close(replicas[0][name], value, atol=TOLERANCE[dtype], rtol=0)
            assert all(torch.equal(replica[name], replicas[0][name]) for replica in replicas)


@pytest.mark.parametrize(("microbatches", "max_norm"), [(2, None), (4, 0.5)])
def test_accumulation_and_clipping_change_nothing(workers, microbatches, max_norm):
    model = MLP(width=32)
    case = CASE._replace(max_norm=max_norm)
    alone = workers(1, _train, Strict(), model, IMAGE, case)[0]
    replica = workers(2, _train, Strict(), model, IMAGE, case._replace(microbatches=microbatches))[0]
    for name, value in alone.items():
        torch.testing.assert_close(replica[name], value, atol=1e-12, rtol=0)
