"""Leave the transport to NCCL's and Gloo's own choice."""

from __future__ import annotations

from trainer.nccl.base import Nccl


class Auto(Nccl):
    """Set nothing but what `env` names: the libraries' defaults are the right start on any machine."""
