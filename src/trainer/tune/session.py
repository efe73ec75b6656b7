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
from trainer.tune.profile import Profile, write


def advise_ranks(run: Run, tune: Advise, links: Links, mesh: Mesh, device: torch.device) -> Profile:
    """Measure some steps, say on rank 0 which settings would be faster, and return the profile; collective."""
    assert links.data is not None, "one process was refused"
    allowed = space.hooks(run, tune.allow)
    profile = measure(run, tune.steps, allowed, links.data, mesh, device)
    if mesh.rank == 0:
        write(run.folder / "profile.json", profile)
        advice = advise(profile, space.present(run), space.choices(run, tune.allow, allowed))
        show(advice, profile, tune.show)
    return profile
