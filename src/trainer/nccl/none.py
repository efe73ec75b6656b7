"""Leave the transport alone."""

from __future__ import annotations

from trainer.nccl.base import Nccl
from trainer.nccl.machine import Machine


class Nothing(Nccl):
    """Set nothing but what `env` names."""

    def found(self, here: Machine) -> dict[str, str]:
        return {}

    def chosen(self, here: Machine) -> str:
        return "none"
