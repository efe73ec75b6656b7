"""Several nodes over RoCE, which is RDMA on Ethernet."""

from __future__ import annotations

from typing import ClassVar

from trainer.nccl.base import Nccl, Network


class Roce(Nccl):
    """The interface that NCCL cannot know; the traffic class is the fabric owner's to say, by `nccl.env`."""

    network: ClassVar[Network | None] = "roce"

    env: dict[str, str] = {"NCCL_DEBUG": "WARN"}
