"""What the ranks of a run with tune=advise do in place of training."""

from __future__ import annotations

import torch

from trainer.mesh import Mesh
from trainer.nccl.inspection import Links
from trainer.run import Run
from trainer.tune import space
from trainer.tune.advice import advise, show
from trainer.tune.advise import Advise
from trainer.tune.measure import measure
from trainer.tune.profile import write


def hold(run: Run, tune: Advise, links: Links, mesh: Mesh, device: torch.device) -> None:
    """Measure some steps, and say on rank 0 which settings would be faster; collective."""
    allowed = space.hooks(run, tune.allow)
    assert links.data is not None, "one process was refused"
    profile = measure(run, tune.steps, allowed, links.data, mesh, device)
    if mesh.rank == 0:
        write(run.folder / "profile.json", profile)
        advice = advise(profile, space.present(run), space.choices(run, allowed))
        show(advice, profile, tune.show)
