"""One diagnosing run: what NCCL says about itself, and what it chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.nccl.base import Nccl, Network
from trainer.nccl.choose import choose
from trainer.nccl.machine import Machine

if TYPE_CHECKING:
    from trainer.run import Run


class Debug(Nccl):
    """As `auto`, and NCCL writes what it does into a file a process instead of the terminal."""

    env: dict[str, str] = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
    }
    read_back: bool = True
    """whether to report what NCCL chose, and what the links do, before the first step"""

    def intended(self, here: Machine) -> Network | None:
        return choose(here).network

    def found(self, here: Machine) -> dict[str, str]:
        return super().found(here) | choose(here).found(here)

    def settle(self, run: Run) -> Nccl:
        # %h and %p are NCCL's signs for the host and the process.
        file = {"NCCL_DEBUG_FILE": f"{run.folder}/logs/nccl.%h.%p.log"}
        return super(Debug, self.model_copy(update={"env": file | self.env})).settle(run)
