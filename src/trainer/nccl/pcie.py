"""One node whose GPUs see each other over PCIe only."""

from __future__ import annotations

from typing import ClassVar

from trainer.nccl.base import Nccl, Network


class Pcie(Nccl):
    """Nothing but a report of errors: where peers cannot reach each other, the machine is to be mended, not NCCL."""

    network: ClassVar[Network | None] = "pcie"

    env: dict[str, str] = {"NCCL_DEBUG": "WARN"}
