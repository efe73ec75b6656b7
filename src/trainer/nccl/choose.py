"""Which preset fits a machine."""

from __future__ import annotations

from trainer.nccl.base import Nccl
from trainer.nccl.ethernet import Ethernet, nearest
from trainer.nccl.ib import Ib
from trainer.nccl.machine import Machine
from trainer.nccl.none import Nothing
from trainer.nccl.nvlink import Nvlink
from trainer.nccl.pcie import Pcie
from trainer.nccl.roce import Roce


def choose(here: Machine) -> Nccl:
    """The preset that says what `here` has; where only NCCL can tell, or a plugin of another fabric, it is none."""
    if here.nodes == 1:
        if not here.gpu or here.nvlink is None:
            return Nothing()
        return Nvlink() if here.nvlink else Pcie()
    layers = {adapter.layer for adapter in here.adapters if adapter.active}
    if "InfiniBand" in layers:
        return Ib()
    if "Ethernet" in layers:
        return Roce()
    # A fabric with a plugin of its own, such as EFA, must not be pressed into TCP.
    return Nothing() if layers else Ethernet(link_gbit=nearest(here.link_gbit))
