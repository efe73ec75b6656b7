"""Several nodes over InfiniBand."""

from __future__ import annotations

from typing import ClassVar

from trainer.nccl.base import Nccl, Network


class Ib(Nccl):
    """The interface that NCCL cannot know; it finds usable adapters and GPUDirect by itself."""

    network: ClassVar[Network | None] = "ib"

    env: dict[str, str] = {"NCCL_DEBUG": "WARN"}
