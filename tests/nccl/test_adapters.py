"""RDMA adapters, as /sys/class/infiniband describes them."""

from __future__ import annotations

from tests.nccl import trees
from trainer.nccl.adapters import Adapter, find, spell


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
