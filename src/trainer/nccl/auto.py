"""Look at the machine and take the preset that fits."""

from __future__ import annotations

from trainer.nccl.base import Nccl, Network
from trainer.nccl.choose import choose
from trainer.nccl.machine import Machine


class Auto(Nccl):
    """What the preset that fits looks up, and nothing that could rule out a transport: the choice may be wrong."""

    env: dict[str, str] = {"NCCL_DEBUG": "WARN"}

    def intended(self, here: Machine) -> Network | None:
        return choose(here).network

    def found(self, here: Machine) -> dict[str, str]:
        return super().found(here) | choose(here).found(here)

    def chosen(self, here: Machine) -> str:
        return choose(here).chosen(here)
