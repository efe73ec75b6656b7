"""What runs on every host of a case: start its ranks, build all variants in each, interleave them, hand back times."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from scripts.bench.case import Case, Variant
from scripts.bench.harness import Stepper, interleave
from scripts.bench.task import Task, compose_run
from trainer.control import Control
from trainer.mesh import Mesh

TIMEOUT = datetime.timedelta(minutes=5)
# Peers whose failure is ours; what a foreign one cannot do is a line of its table.
OURS = ("ours", "hand", "communication", "torch_pipeline", "torch_tensor", "profile", "forecast")


class Measured(NamedTuple):
    """Seconds a step by variant and round, and the reasons of the variants that are missing."""

    seconds: dict[str, list[float]]
    missing: dict[str, str]


def main(folder: Path) -> None:
    """Measure the case that is pickled in `folder`; host 0 leaves its result there."""
    case: Case = pickle.loads((folder / "case").read_bytes())
    host = int(os.environ.get("NETLAB_HOST", "0"))
    results = elastic_launch(_agent(case, host), measure)(case)
    if host == 0:
        (folder / "result").write_text(json.dumps(results[0]))


def measure(case: Case) -> Measured:
    """One rank's part; collective."""
    torch.set_num_threads(1)
    device = torch.device(_kind(), int(os.environ["LOCAL_RANK"])) if _kind() == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    sizes = compose_run(case.overrides).parallel.sizes(dist.get_world_size())
    mesh = Mesh.join(sizes, device, TIMEOUT)
    measured = measure_on(mesh, device, case)
    dist.barrier()
    dist.destroy_process_group()
    return measured


def measure_on(mesh: Mesh, device: torch.device, case: Case) -> Measured:
    """Build the variants, warm each up, and let them take turns."""
    turns = dist.new_group(backend="gloo", timeout=TIMEOUT, group_desc="turns")
    assert isinstance(turns, dist.ProcessGroup), "every rank is a member"
    control = Control(mesh.control)
    steppers: dict[str, Stepper] = {}
    missing: dict[str, str] = {}
    for variant in case.variants:
        try:
            stepper = build(variant, case, mesh, device, control)
            for _ in range(case.warmup):
                stepper.step()
            # The next variant talks to the other ranks while it is built, on the groups that this one uses as well.
            stepper.settle()
            steppers[variant.name] = stepper
        except Exception as error:  # a framework may fail in any way, and the others' figures still count
            if variant.peer in OURS:
                raise
            missing[variant.name] = _reason(error)
    seconds = interleave(steppers, case.rounds, case.steps, turns, device, case.lead, case.trail)
    for stepper in steppers.values():
        stepper.close()
    return Measured(seconds, missing)


def build(variant: Variant, case: Case, mesh: Mesh, device: torch.device, control: Control) -> Stepper:
    """The variant's stepper."""
    peer = importlib.import_module(f"scripts.bench.peers.{variant.peer}")
    task = Task.make([*case.overrides, *variant.overrides], mesh, device, control)
    return peer.build(task, **variant.options)


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"not installed: {error.name}"
    lines = str(error).strip().splitlines() or [""]
    return f"does not run here: {type(error).__name__}: {lines[0]}"


def _kind() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _agent(case: Case, host: int) -> LaunchConfig:
    place: dict[str, Any] = {}
    if case.rate is None:
        hosts = 1
        place |= {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "local_addr": "localhost"}
    else:
        address = os.environ["NETLAB_MASTER_ADDR"]
        hosts = case.hosts
        place |= {"rdzv_backend": "static", "rdzv_endpoint": f"{address}:{os.environ['NETLAB_MASTER_PORT']}"}
        place |= {"rdzv_configs": {"rank": host, "timeout": 60}}
    return LaunchConfig(
        min_nodes=hosts,
        max_nodes=hosts,
        nproc_per_node=case.ranks // hosts,
        run_id="bench",
        max_restarts=0,
        monitor_interval=0.5,
        start_method="spawn",
        **place,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
