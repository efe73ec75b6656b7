"""`ib`: several nodes over InfiniBand, where only the interface is not NCCL's to find."""

from __future__ import annotations

from trainer.nccl.ib import Ib
from trainer.nccl.machine import Machine


def test_several_nodes_have_the_interface_and_nothing_else():
    here = Machine(nodes=2, gpu=True, interface="bond0")
    assert Ib().env == {"NCCL_DEBUG": "WARN"}
    assert Ib().found(here) == {"NCCL_SOCKET_IFNAME": "=bond0", "GLOO_SOCKET_IFNAME": "bond0"}
    assert Ib().intended(here) == "ib"


def test_one_node_has_none():
    assert Ib().found(Machine(gpu=True)) == {}
