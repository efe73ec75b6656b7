"""Measure some steps, predict the whole space of settings, and say which are fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainer.spec import ConfigError
from trainer.tune.base import Session

if TYPE_CHECKING:
    import torch

    from trainer.mesh import Mesh
    from trainer.nccl.inspection import Links
    from trainer.run import Run
    from trainer.tune.profile import Profile


Allow = Literal["exact", "lossy", "stale"]


class Advise(Session):
    """Settings that would shorten a step, by a simulation of it; nothing is trained, and nothing is kept."""

    steps: Annotated[int, Field(ge=10)] = 16
    """the number of steps that are measured, once without communication and once with the run's own settings"""
    allow: Allow = "exact"
    """what may change: exact keeps the result, lossy allows hooks that compress, stale also rules that update late"""
    show: Annotated[int, Field(ge=1)] = 5
    """the number of settings to show"""

    def check(self, run: Run) -> None:
        sizes = run.parallel.sizes(run.place.world)
        if run.place.world == 1 or sizes["data"] == 1:
            raise ConfigError(
                "tune: there is one replica, which sends no gradients; start several processes, for example"
                " launch.processes=2"
            )
        if sizes["pipeline"] > 1 or sizes["tensor"] > 1 or run.parallel.data.shard:
            raise ConfigError("tune: only steps of parallel=ddp are predicted; use it, or tune=none")
        if run.compile:
            raise ConfigError("compile: layers are timed one by one, which a compiled model has not; use compile=false")
        if run.checkpoint.resume is not None:
            raise ConfigError("checkpoint.resume: steps are measured from fresh weights; leave it out")
        if dense := getattr(run.comm, "warmup_steps", 0):
            raise ConfigError(
                f"comm.warmup_steps: the first {dense} steps are dense, and only such would be measured; use"
                " comm.warmup_steps=0 here"
            )
        if run.batch.microbatches > 1:
            raise ConfigError(
                f"tune: a step of {run.batch.microbatches} micro-batches is not predicted; use batch.microbatches=1"
            )
        refuse_unpredicted(run)

    def hold(self, run: Run, mesh: Mesh, device: torch.device, look: Callable[[], Links]) -> Profile:
        # What advice needs is no part of a training.
        from trainer.tune.session import advise_ranks

        return advise_ranks(run, self, look(), mesh, device)


def refuse_unpredicted(run: Run) -> None:
    """Raise ConfigError for present settings whose step no program is of."""
    if run.parallel.data.bucket_cap_mb == "auto":
        raise ConfigError("parallel.data.bucket_cap_mb: auto chooses by itself; give a number, or null, to compare")
    if run.sync.late or run.sync.apart:
        raise ConfigError(
            "tune: what is measured to begin with has no stale updates; use sync=strict, and tune.allow=stale to"
            " have such rules among the choices"
        )
