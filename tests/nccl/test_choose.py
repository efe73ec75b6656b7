"""Which preset fits which machine."""

from __future__ import annotations

import pytest

from trainer.nccl.adapters import Adapter
from trainer.nccl.choose import choose
from trainer.nccl.ethernet import Ethernet
from trainer.nccl.ib import Ib
from trainer.nccl.machine import Machine
from trainer.nccl.none import Nothing
from trainer.nccl.nvlink import Nvlink
from trainer.nccl.pcie import Pcie
from trainer.nccl.roce import Roce


def port(layer: str, active: bool = True) -> Adapter:
    return Adapter("mlx5_0", 1, layer, active, 100.0)


@pytest.mark.parametrize(
    ("here", "preset"),
    [
        (Machine(gpu=True, nvlink=True), Nvlink),
        (Machine(gpu=True, nvlink=False), Pcie),
        (Machine(gpu=True, nvlink=None), Nothing),
        (Machine(gpu=False), Nothing),
        (Machine(nodes=2, adapters=(port("Ethernet"), port("InfiniBand"))), Ib),
        (Machine(nodes=2, adapters=(port("Ethernet"),)), Roce),
        (Machine(nodes=2, adapters=(port("Ethernet"), port("InfiniBand", active=False))), Roce),
        (Machine(nodes=2, adapters=(port("InfiniBand", active=False),)), Ethernet),
        (Machine(nodes=2), Ethernet),
        (Machine(nodes=2, adapters=(port("Unspecified"),)), Nothing),
        (Machine(nodes=1, gpu=True, nvlink=True, adapters=(port("InfiniBand"),)), Nvlink),
    ],
)
def test_what_there_is_decides(here, preset):
    assert type(choose(here)) is preset


@pytest.mark.parametrize(("gbit", "speed"), [(100.0, 100), (None, 1)])
def test_ethernet_gets_the_speed_of_its_interface(gbit, speed):
    chosen = choose(Machine(nodes=2, link_gbit=gbit))
    assert isinstance(chosen, Ethernet)
    assert chosen.link_gbit == speed
