"""One node whose GPUs are joined by NVLink or NVSwitch."""

from __future__ import annotations

from typing import ClassVar

from trainer.nccl.base import Nccl, Network


class Nvlink(Nccl):
    """Nothing but a report of errors: NCCL finds NVLink, NVSwitch and NVLS itself, and a level only takes away."""

    network: ClassVar[Network | None] = "nvlink"

    env: dict[str, str] = {"NCCL_DEBUG": "WARN"}
