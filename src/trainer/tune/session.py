"""What the ranks of a run with tune=advise do in place of training."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from trainer.mesh import Mesh
from trainer.nccl.probe import Level, Link
from trainer.run import Run
from trainer.tune import space
from trainer.tune.advice import advise, show
from trainer.tune.advise import Advise
from trainer.tune.measure import measure
from trainer.tune.profile import write


def hold(run: Run, tune: Advise, links: Mapping[Level, Link], mesh: Mesh, device: torch.device) -> None:
    """Measure some steps, and say on rank 0 which settings would be faster; collective."""
    allowed = space.hooks(run, tune.allow)
    profile = measure(run, tune.steps, allowed, links, mesh, device)
    if mesh.rank == 0:
        write(run.folder / "profile.json", profile)
        advice = advise(profile, space.present(run), space.choices(run, allowed))
        show(advice, profile, tune.show)
