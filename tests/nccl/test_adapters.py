"""RDMA adapters, as /sys/class/infiniband describes them."""

from __future__ import annotations

import pytest

from tests.nccl import trees
from trainer.nccl.adapters import Adapter, find, spell
from trainer.nccl.checker.context import Gid


def test_every_port_is_found_with_its_layer_state_and_rate(tmp_path):
    trees.adapter(tmp_path, "mlx5_0", "InfiniBand")
    trees.adapter(tmp_path, "mlx5_1", "Ethernet", state="1: DOWN", rate="2.5 Gb/sec (1X SDR)")
    assert find(tmp_path) == (
        Adapter("mlx5_0", 1, "InfiniBand", True, 400.0),
        Adapter("mlx5_1", 1, "Ethernet", False, 2.5),
    )


def test_a_machine_without_the_folder_has_none(tmp_path):
    assert find(tmp_path) == ()
    assert spell(()) == "no RDMA adapter"


def test_a_port_that_says_nothing_is_of_an_unknown_fabric(tmp_path):
    (tmp_path / "class" / "infiniband" / "efa_0" / "ports" / "1").mkdir(parents=True)
    assert find(tmp_path) == (Adapter("efa_0", 1, "unknown", False, None),)


def test_ports_that_are_alike_are_counted():
    ports = [Adapter(f"mlx5_{number}", 1, "InfiniBand", True, 400.0) for number in range(8)]
    down = Adapter("mlx5_8", 1, "Ethernet", False, 100.0)
    assert spell([*ports, down]) == "8 RDMA ports (InfiniBand of 400 Gbit/s), 1 RDMA port (Ethernet, down)"


def test_the_rows_in_use_of_a_roce_ports_address_table_are_found(tmp_path):
    for name, layer in (("mlx5_0", "Ethernet"), ("mlx5_1", "InfiniBand")):
        trees.adapter(tmp_path, name, layer)
        trees.gid(tmp_path, name, 10, "0000:0000:0000:0000:0000:ffff:0a00:0005", "RoCE v2")
        trees.gid(tmp_path, name, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1")
        trees.gid(tmp_path, name, 1, "0000:0000:0000:0000:0000:0000:0000:0000", "")
        trees.gid(tmp_path, name, 2, "no address", "RoCE v2")
    roce, infiniband = find(tmp_path)
    assert [(gid.index, gid.roce) for gid in roce.gids] == [(0, 1), (10, 2)]
    assert roce.gids[0] == Gid(0, "fe80::1", 1)
    assert infiniband.gids == ()


@pytest.mark.parametrize(
    ("text", "found"), [("Global tclass=106\n", 106), ("\n", None), ("src_ip=10.0.0.1,tclass=3\n", None)]
)
def test_the_traffic_class_of_a_whole_roce_port_is_found(tmp_path, text, found):
    trees.adapter(tmp_path, "mlx5_0", "Ethernet")
    trees.traffic_class(tmp_path, "mlx5_0", text)
    (adapter,) = find(tmp_path)
    assert adapter.traffic_class == found
