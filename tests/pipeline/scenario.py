"""Whole runs of a few steps in test processes, at any mesh: what the tests of pipelines share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.data import TensorDataset

from trainer.assemble import assemble
from trainer.checkpoint_parts import Cut
from trainer.control import Control
from trainer.data.base import Split
from trainer.loop import steps
from trainer.mesh import Mesh
from trainer.run import Run

CPU = torch.device("cpu")
SMALL = (
    "logger=[]",
    "data=custom",
    "data.factory=tests.pipeline.scenario:images",
    "evaluate.every=null",
    "checkpoint.every=null",
    "log.every=1",
    "log.report=false",
    "batch.size=16",
    "optimizer.lr=0.05",
    "epochs=null",
    "steps=3",
    "launch.threads=1",
)
TOKENS = ("data.factory=tests.pipeline.scenario:tokens", "data.classes=32")


def images(dtype: str = "float64", count: int = 64) -> Split:
    generator = torch.Generator().manual_seed(7)
    pictures = torch.randn(count, 1, 8, 8, generator=generator, dtype=torch.float64).to(getattr(torch, dtype))
    data = TensorDataset(pictures, torch.randint(10, (count,), generator=generator))
    return Split(data, data)


def tokens(dtype: str = "float64", count: int = 64) -> Split:
    text = torch.randint(32, (count, 9), generator=torch.Generator().manual_seed(7))
    data = TensorDataset(text[:, :-1], text[:, 1:])
    return Split(data, data)


def net() -> nn.Module:
    layers = [
        nn.Flatten(),
        nn.Linear(64, 16),
        nn.Tanh(),
        nn.Sequential(nn.Linear(16, 16), nn.Tanh()),
        nn.Linear(16, 10),
    ]
    return nn.Sequential(*layers)


def summed(output: Tensor, target: Tensor) -> Tensor:
    """The sum of the samples' cross-entropies, small enough for the same learning rate."""
    return nn.functional.cross_entropy(output, target, reduction="sum") / 16


class Trained(NamedTuple):
    weights: dict[str, Tensor]
    """of this rank's part of the model, after the last step"""
    losses: list[float]
    history: list[dict[str, float]]
    begins: tuple[str, ...]


def train(mesh: Mesh, runs: Sequence[Run], dtype: torch.dtype = torch.float64) -> list[Trained]:
    """Each run, one after another, on the ranks of `mesh` laid out anew."""
    torch.set_default_dtype(dtype)
    return [_train(mesh, run) for run in runs]


def _train(mesh: Mesh, run: Run) -> Trained:
    run.folder.mkdir(exist_ok=True)
    own = Mesh.join(run.parallel.sizes(dist.get_world_size()), CPU, run.timeout)
    job, batches = assemble(run, own, CPU, Control(own.control))
    seen: list[dict[str, Any]] = job.history
    # Rank 0 alone writes; here every rank shows what it would have written.
    job.writers[:] = [_Nothing()]
    for _ in steps(job, batches):
        pass
    with job.synchroniser.whole():
        weights = {
            name: _whole(value.detach().clone(), job.checkpoints.parts.cuts.get(name), own.groups["tensor"])
            for name, value in job.checkpoints.module.state_dict().items()
        }
    job.close()
    losses = [metrics["train/loss"] for metrics in seen if "train/loss" in metrics]
    return Trained(weights, losses, list(seen), job.checkpoints.begins)


def _whole(value: Tensor, cut: Cut | None, group: dist.ProcessGroup) -> Tensor:
    """All ranks' parts of a parameter, which may be of several sizes."""
    if isinstance(value, DTensor):
        return value.full_tensor()
    if cut is None:
        return value
    parts: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, value, group=group)
    return torch.cat(parts, cut.dim)


class _Nothing:
    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Nothing is kept but the job's own history."""

    def draw(self, picture: Any) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is open."""


def merged(ranks: Sequence[Trained]) -> dict[str, Tensor]:
    """The weights of the whole model; where several ranks have one, they must be equal bit by bit."""
    whole: dict[str, Tensor] = {}
    for rank in ranks:
        for name, value in rank.weights.items():
            assert torch.equal(whole.setdefault(name, value), value), f"{name} differs between replicas"
    return whole
