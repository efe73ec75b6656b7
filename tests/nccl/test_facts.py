"""What a machine has reaches the checker."""

from __future__ import annotations

import math

import pytest

from trainer.nccl import facts
from trainer.nccl.adapters import Adapter
from trainer.nccl.checker.context import Context, Device, Gid, Interface
from trainer.nccl.gpus import Gpus
from trainer.nccl.machine import Machine

GID = Gid(3, "::ffff:10.0.0.5")


def _roce(name: str, traffic_class: int | None, active: bool = True) -> Adapter:
    return Adapter(name, 1, "Ethernet", active, 400.0, (GID,), traffic_class)


def test_every_fact_of_a_machine_has_its_place():
    here = Machine(
        gpu=True,
        nvlink=False,
        verbs=True,
        shared_bytes=2**26,
        locked_bytes=65536,
        adapters=(_roce("mlx5_0", 106), Adapter("efa_0", 1, "Unspecified", True, None)),
        interfaces=(Interface("lo", True, ("127.0.0.1/8",), 1), Interface("ens5", True, ("10.0.0.5/24",), 2)),
        gpus=Gpus(2, False, frozenset({"PHB"}), True),
        plugin="/a/libnccl-net.so",
        host_address="10.0.0.5",
    )
    assert Context(**facts.of(here)) == Context(
        local=True,
        gpu=True,
        nvlink=False,
        gpus=2,
        gpu_paths=frozenset({"PHB"}),
        peer_access=True,
        shm_bytes=2**26,
        memory_lockable=False,
        plugin="/a/libnccl-net.so",
        interfaces=here.interfaces,
        interface="ens5",
        host_address="10.0.0.5",
        devices=(Device("mlx5_0", "ethernet", gids=(GID,)),),
        verbs=True,
        traffic_class=106,
    )


def test_a_machine_that_tells_nothing_leaves_all_unknown():
    assert Context(**facts.of(Machine())) == Context(local=True, devices=())


@pytest.mark.parametrize(("size", "lockable"), [(math.inf, True), (65536, False), (None, None)])
def test_only_memory_without_a_limit_is_lockable(size, lockable):
    assert facts.of(Machine(locked_bytes=size))["memory_lockable"] is lockable


def test_a_traffic_class_is_the_machines_where_all_ports_that_are_up_have_it():
    def found(*adapters: Adapter) -> int | None:
        return facts.of(Machine(adapters=adapters))["traffic_class"]

    assert found(_roce("a", 106), _roce("b", 106), _roce("c", None, active=False)) == 106
    assert found(_roce("a", 106), _roce("b", None)) is None
    assert found() is None
