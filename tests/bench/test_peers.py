"""Every peer steps: weights move, and stay alike on both ranks."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field

import pytest
import torch
import torch.distributed as dist

from scripts.bench.case import Case, Variant
from scripts.bench.harness import Stepper
from scripts.bench.peers.communication import bucket_sizes
from scripts.bench.task import Task
from scripts.bench.worker import measure_on
from trainer.control import Control

OVERRIDES = ("model=mlp", "data=digits", "batch.size=8")
# Which package a peer needs; DeepSpeed is no part of the extra `bench`, and compiles at its first start.
PACKAGES = {
    "fabric": "lightning",
    "lightning_trainer": "lightning",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
}
PEERS = [
    ("hand", {}),
    ("torch_hooks", {"hook": "fp16"}),
    ("torch_hooks", {"hook": "bf16"}),
    ("torch_hooks", {"hook": "powersgd", "rank": 2}),
    ("fabric", {}),
    ("lightning_trainer", {}),
    ("accelerate", {}),
]
CPU = torch.device("cpu")


@dataclass(frozen=True)
class _Watched(Task):
    models: list[torch.nn.Module] = field(default_factory=list)

    def model(self) -> torch.nn.Module:
        self.models.append(super().model())
        return self.models[-1]


def _elastic() -> None:
    # What an elastic agent sets, and frameworks look for.
    os.environ.update(LOCAL_WORLD_SIZE="2", GROUP_RANK="0", TORCHELASTIC_RUN_ID="bench", MASTER_ADDR="localhost")
    os.environ.update(MASTER_PORT="29500", OMP_NUM_THREADS="1")


def _train(mesh, peer: str, options: dict) -> tuple[torch.Tensor, torch.Tensor]:
    _elastic()
    made = Task.make(OVERRIDES, mesh, CPU, Control(mesh.control))
    task = _Watched(made.run, mesh, CPU, made.control)
    before = _flat(made.model())
    stepper: Stepper = importlib.import_module(f"scripts.bench.peers.{peer}").build(task, **options)
    for _ in range(3):
        stepper.step()
    stepper.close()
    return before, _flat(task.models[-1])


def _flat(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().cpu().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize(("peer", "options"), PEERS, ids=[" ".join([p, *map(str, o.values())]) for p, o in PEERS])
def test_a_peer_trains_the_same_replicas(workers, peer, options):
    package = PACKAGES.get(peer)
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (pip install 'overlap-trainer[bench]')")
    (before, first), (other, second) = workers(2, _train, peer, options)
    assert torch.equal(before, other)
    # Replicas under torch's PowerSGD differ in the last bit: each rank multiplies its factors out by itself.
    torch.testing.assert_close(first, second, rtol=0, atol=1e-8 if options.get("hook") == "powersgd" else 0)
    assert not torch.equal(before, first)


def _measure(mesh, case: Case):
    _elastic()
    sizes = bucket_sizes(Task.make(case.overrides, mesh, CPU, Control(mesh.control)))
    return measure_on(mesh, CPU, case), sizes


def test_a_case_measures_ours_beside_the_floors_and_tells_what_is_missing(workers):
    variants = (
        Variant("compute", "ours", ("comm=noop",)),
        Variant("communication", "communication"),
        Variant("ours", "ours"),
        Variant("foreign", "no_such_peer"),
        Variant("broken", "torch_hooks", options={"hook": "no_such"}),
    )
    case = Case("net", variants, "ours", OVERRIDES, rounds=2, steps=1, warmup=1)
    (measured, sizes), (again, _) = workers(2, _measure, case)
    assert measured == again
    assert list(measured.seconds) == ["compute", "communication", "ours"]
    assert all(len(turns) == 2 and min(turns) > 0 for turns in measured.seconds.values())
    assert measured.missing["foreign"] == "not installed: scripts.bench.peers.no_such_peer"
    assert measured.missing["broken"].startswith("does not run here: AttributeError: ")
    # An MLP of 64-256-256-10 is one bucket.
    assert sizes == [64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10]
    assert dist.is_initialized() is False
