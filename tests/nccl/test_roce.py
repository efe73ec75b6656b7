"""`roce`: several nodes over RoCE, where only the interface is not NCCL's to find."""

from __future__ import annotations

from trainer.nccl.machine import Machine
from trainer.nccl.roce import Roce


def test_several_nodes_have_the_interface_and_nothing_else():
    here = Machine(nodes=2, gpu=True, interface="bond0")
    assert Roce().env == {"NCCL_DEBUG": "WARN"}
    assert Roce().found(here) == {"NCCL_SOCKET_IFNAME": "=bond0", "GLOO_SOCKET_IFNAME": "bond0"}
    assert Roce().intended(here) == "roce"


def test_one_node_has_none():
    assert Roce().found(Machine(gpu=True)) == {}
