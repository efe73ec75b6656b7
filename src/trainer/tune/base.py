"""`tune`: whether a run trains, or finds out under which settings it would train fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainer.spec import Component

if TYPE_CHECKING:
    import torch

    from trainer.mesh import Mesh
    from trainer.nccl.inspection import Links
    from trainer.run import Run


class Tune(Component):
    """Train."""

    def conduct(self, run: Run, launch: Callable[[Run], Any]) -> None:
        """Do what was asked for, in the launcher; `launch` starts the workers and returns what they did."""
        launch(run)


class Session(Tune):
    """What the ranks of a run do in place of training."""

    def hold(self, run: Run, mesh: Mesh, device: torch.device, look: Callable[[], Links]) -> Any:
        """Do it, and return on every rank what the launcher is to know, alike on all; collective, as `look` is."""
        raise NotImplementedError
