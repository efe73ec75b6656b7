"""No way to train: the profile that `tune=advise` measures, on the ranks of a case, before any variant is built."""

from __future__ import annotations

from pathlib import Path

from scripts.bench.harness import Bare
from scripts.bench.task import Task
from trainer.nccl.probe import hosts_of, probe, slowest
from trainer.tune import space
from trainer.tune.measure import measure
from trainer.tune.profile import write

# As many as tune=advise takes at the least.
STEPS = 10


def build(task: Task, path: str) -> Bare:
    """A stepper that does nothing; the profile is in `path` when it is there."""
    mesh = task.mesh
    hosts = hosts_of(mesh.control)
    wire = slowest(probe(task.group, mesh.control, hosts, task.device))
    profile = measure(task.run, STEPS, space.hooks(task.run, "lossy"), wire, mesh, task.device)
    if mesh.rank == 0:
        write(Path(path), profile)
    return Bare(lambda: None)
