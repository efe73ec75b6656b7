"""For every rule a setting at which it speaks, with its severity, and one like it at which it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from tests.nccl.checker.judging import ETH0, infiniband, named, roce
from trainer.nccl.checker.context import Device, Interface, Rank


class Firing(NamedTuple):
    rule: str
    severity: str
    variables: str
    known: dict[str, Any]
    silent: str
    silent_known: dict[str, Any] | None = None
    """what is known in the silent setting; None for the same"""


def _ranks(*values: dict[str, Any]) -> tuple[Rank, ...]:
    """One rank a node, with these facts."""
    return tuple(Rank(number, f"node{number}", **facts) for number, facts in enumerate(values))


def _node(*values: dict[str, str]) -> tuple[Rank, ...]:
    """Ranks of one node, with these variables."""
    return tuple(Rank(number, "node0", variables) for number, variables in enumerate(values))


TWO = {"nodes": 2}
ROCE = {"net": "roce"}
OLD = {"nccl": (2, 21, 5)}
SMALL = {"shm_bytes": 2**26, "gpus": 2}
V1, V4, LINK = "v1=::ffff:10.0.0.1", "::ffff:10.0.0.1", "fe80::1"

FIRINGS = (
    Firing("unknown", "error", "NCCL_SOCKET_NTHREAD=4", {}, "NCCL_SOCKET_NTHREADS=4"),
    Firing("unknown", "warning", "NCCL_SOMETHING_NEW=4", {"nccl": (2, 31, 2)}, "NCCL_IB_PKEY_VALUE=4"),
    Firing("unknown", "warning", "TORCH_NCCL_BLOCKING=1", {}, "TORCH_NCCL_BLOCKING_WAIT=1"),
    Firing("removed", "error", "NCCL_TREE_THRESHOLD=0", {}, "NCCL_TREE_THRESHOLD=0", {"nccl": (2, 4, 8)}),
    Firing("removed", "warning", "ENABLE_NCCL_HEALTH_CHECK=1", {}, "ENABLE_NCCL_HEALTH_CHECK=1", {"torch": (2, 2)}),
    Firing("deprecated", "warning", "NCCL_MAX_NCHANNELS=4", {}, "NCCL_MAX_NCHANNELS=4", {"nccl": (2, 16, 5)}),
    Firing("deprecated", "warning", "RDMAV_FORK_SAFE=1", {}, "FI_EFA_USE_HUGE_PAGE=0"),
    Firing(
        "newer", "warning", "NCCL_IB_ADDR_RANGE=10.0.0.0/8", {"nccl": (2, 20, 5)}, "NCCL_IB_ADDR_RANGE=10.0.0.0/8", OLD
    ),
    Firing(
        "newer", "warning", "TORCH_FR_BUFFER_SIZE=20", {"torch": (2, 8)}, "TORCH_FR_BUFFER_SIZE=20", {"torch": (2, 9)}
    ),
    Firing("C4", "error", "NCCL_BUFFSIZE=4M", {}, "NCCL_BUFFSIZE=4194304"),
    Firing("C4", "error", "TORCH_FR_BUFFER_SIZE=many", {}, "TORCH_FR_BUFFER_SIZE=2000"),
    Firing("value", "error", "NCCL_CROSS_NIC=3", {}, "NCCL_CROSS_NIC=2"),
    Firing("value", "warning", "NCCL_PXN_DISABLE=2", {}, "NCCL_PXN_DISABLE=1"),
    Firing("empty", "warning", "NCCL_IB_DISABLE=", {}, "NCCL_IB_DISABLE=1"),
    Firing("T1", "error", "NCCL_IB_DISABLE=1 NCCL_IB_HCA=mlx5_0", {}, "NCCL_IB_DISABLE=0 NCCL_IB_HCA=mlx5_0"),
    Firing("T2", "error", "NCCL_IB_DISABLE=1", ROCE, "NCCL_IB_DISABLE=1", {"net": "ethernet"}),
    Firing("T3", "error", "NCCL_NET=Socket NCCL_IB_TC=106", {}, "NCCL_NET=IB NCCL_IB_TC=106"),
    Firing("T3", "error", "NCCL_NET=socket", ROCE, "NCCL_NET=Socket", {"net": "ethernet"}),
    Firing("T4", "error", "NCCL_NET=IB NCCL_IB_DISABLE=1", {}, "NCCL_NET=Socket NCCL_IB_DISABLE=1"),
    Firing("T5", "error", "NCCL_NET=OFI NCCL_NET_PLUGIN=none", {}, "NCCL_NET=Socket NCCL_NET_PLUGIN=none"),
    Firing("T6", "warning", "NCCL_IB_DISABLE=1", {"plugin": "hpcx"}, "NCCL_IB_DISABLE=1 NCCL_IBEXT_DISABLE=1"),
    Firing("T7", "error", "NCCL_P2P_DISABLE=1 NCCL_P2P_LEVEL=NVL", {}, "NCCL_P2P_DISABLE=1 NCCL_P2P_LEVEL=LOC"),
    Firing("T8", "error", "NCCL_P2P_DISABLE=1", {"nvlink": True}, "NCCL_P2P_DISABLE=0"),
    Firing("T8", "warning", "NCCL_P2P_LEVEL=LOC", {"nvlink": False}, "NCCL_P2P_LEVEL=SYS"),
    Firing("T9", "error", "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1", {}, "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=2"),
    Firing("T10", "warning", "NCCL_SHM_DISABLE=1", {"nvlink": False}, "NCCL_SHM_DISABLE=1", {"nvlink": True}),
    Firing("T11", "error", "NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=0", {}, "NCCL_MNNVL_ENABLE=2 NCCL_CUMEM_ENABLE=0"),
    Firing("T12", "error", "NCCL_COLLNET_ENABLE=1 NCCL_NET_PLUGIN=none", {}, "NCCL_NET_PLUGIN=none"),
    Firing("T13", "error", "NCCL_P2P_LEVEL=pix", {}, "NCCL_P2P_LEVEL=PIX"),
    Firing("T13", "error", "NCCL_NET_GDR_LEVEL=5x", {}, "NCCL_NET_GDR_LEVEL=1"),
    Firing("T14", "warning", "NCCL_P2P_LEVEL=NVL", {"gpu_paths": {"NV4", "PXB"}}, "NCCL_P2P_LEVEL=PXB"),
    Firing("T15", "warning", "NCCL_NET_GDR_LEVEL=4", {}, "NCCL_NET_GDR_LEVEL=3"),
    Firing("T16", "error", "NCCL_NVLS_ENABLE=1 NCCL_MULTI_RANK_GPU_ENABLE=1", {}, "NCCL_MULTI_RANK_GPU_ENABLE=1"),
    Firing("T17", "warning", "NCCL_NVLS_ENABLE=1", {}, "NCCL_NVLS_ENABLE=0"),
    Firing("T17", "warning", "", {"multicast": False}, "NCCL_NVLS_ENABLE=0"),
    Firing("T18", "warning", "NCCL_P2P_LEVEL=SYS", {"peer_access": False}, "NCCL_P2P_LEVEL=SYS", {"peer_access": True}),
    Firing(
        "T19", "warning", "NCCL_P2P_DISABLE=1", {"shm_bytes": 2**26, "gpus": 2}, "", {"shm_bytes": 2**26, "gpus": 2}
    ),
    Firing("T19", "warning", "", {"shm_bytes": 2**26, "gpus": 2, "peer_access": False}, "", {"shm_bytes": 2**30}),
    Firing("T19", "warning", "", {**SMALL, "gpu": True}, "", {**SMALL, "gpu": True, "nvlink": True}),
    Firing(
        "T19",
        "warning",
        "",
        {**SMALL, "gpu": True, "peer_access": True, "gpu_paths": {"PIX", "PHB"}},
        "",
        {**SMALL, "gpu": True, "peer_access": True, "gpu_paths": {"PIX", "PXB"}},
    ),
    Firing("default", "warning", "NCCL_IB_DISABLE=0", {}, "NCCL_IB_DISABLE=1"),
    Firing("I1", "error", "NCCL_SOCKET_IFNAME=lo", TWO, "NCCL_SOCKET_IFNAME=lo", {"nodes": 1}),
    Firing(
        "I1",
        "error",
        "NCCL_SOCKET_IFNAME==lo",
        TWO,
        "NCCL_SOCKET_IFNAME==lo",
        {"nodes": 2, "interfaces": (Interface("lo", addresses=("127.0.0.1/8", "10.1.0.1/32")),)},
    ),
    Firing("I2", "warning", "NCCL_SOCKET_IFNAME=^docker0", TWO, "NCCL_SOCKET_IFNAME=^docker0,lo"),
    Firing("I3", "error", "NCCL_SOCKET_IFNAME==^eth0", {}, "NCCL_SOCKET_IFNAME=^=eth0"),
    Firing("I3", "error", "NCCL_SOCKET_IFNAME=e", {}, "NCCL_SOCKET_IFNAME=en"),
    Firing("I4", "error", "NCCL_SOCKET_IFNAME=eth2", {"interfaces": named("eth0")}, "NCCL_SOCKET_IFNAME=eth"),
    Firing(
        "I4",
        "error",
        "NCCL_SOCKET_IFNAME=eth0",
        {"interfaces": (Interface("eth0", up=False),)},
        "NCCL_SOCKET_IFNAME=eth0",
        {"interfaces": (ETH0,)},
    ),
    Firing("I4b", "error", "GLOO_SOCKET_IFNAME=bond1", {"interfaces": named("eth0")}, "GLOO_SOCKET_IFNAME=eth0"),
    Firing(
        "I5",
        "warning",
        "NCCL_SOCKET_IFNAME=bond0",
        {"interfaces": named("bond0", "bond0.2093")},
        "NCCL_SOCKET_IFNAME==bond0",
    ),
    Firing("I6", "warning", "NCCL_SOCKET_IFNAME=^lo", {"interfaces": named("docker0")}, "NCCL_SOCKET_IFNAME==docker0"),
    Firing("I6", "warning", "", {"interface": "veth12"}, "", {"interface": "eth0"}),
    Firing("I6", "warning", "", {"interface": "veth12", "nodes": 2}, "", {"interface": "veth12", "nodes": 1}),
    Firing(
        "I7",
        "warning",
        "NCCL_SOCKET_IFNAME=eth",
        {"interfaces": (ETH0, Interface("eth1", addresses=("10.0.0.6/24",)))},
        "NCCL_SOCKET_IFNAME=eth",
        {"interfaces": named("eth0", "eth1")},
    ),
    Firing(
        "I8",
        "warning",
        "",
        {"ranks": _ranks({"subnets": ("10.0.0.0/24",)}, {"subnets": ("10.1.0.0/24",)})},
        "",
        {"ranks": _ranks({"subnets": ("10.0.0.0/24",)}, {"subnets": ("10.0.0.0/24", "10.1.0.0/24")})},
    ),
    Firing("I9", "error", "GLOO_SOCKET_IFNAME=^lo,docker", {}, "GLOO_SOCKET_IFNAME=eth0,eth1"),
    Firing("I9", "error", "GLOO_SOCKET_IFNAME=eth", {"interfaces": named("eth0")}, "GLOO_SOCKET_IFNAME=eth0"),
    Firing("I9", "error", "TP_SOCKET_IFNAME=eth0,eth1", {}, "TP_SOCKET_IFNAME=eth0"),
    Firing(
        "I10",
        "warning",
        "NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth1",
        {},
        "NCCL_SOCKET_IFNAME=eth GLOO_SOCKET_IFNAME=eth1",
    ),
    Firing("I10", "warning", "GLOO_SOCKET_IFNAME=eth1", {"interface": "eth0"}, "GLOO_SOCKET_IFNAME=eth0"),
    Firing("I11", "error", "MASTER_ADDR=127.0.0.1", TWO, "MASTER_ADDR=127.0.0.1", {"nodes": 1}),
    Firing("I11", "error", "", {"nodes": 2, "host_address": "127.0.1.1"}, "GLOO_SOCKET_IFNAME=eth0"),
    Firing(
        "I11",
        "warning",
        "",
        {"nodes": 2, "host_address": "10.9.9.9", "interfaces": (ETH0,)},
        "",
        {"nodes": 2, "host_address": "10.0.0.5", "interfaces": (ETH0,)},
    ),
    Firing("I12", "warning", "NCCL_COMM_ID=10.0.0.1:2000", {}, "NCCL_RAS_ADDR=localhost:28028"),
    Firing(
        "I13",
        "error",
        "",
        {"ranks": _ranks({"identity": "localhost"}, {"identity": "localhost"})},
        "",
        {"ranks": _ranks({"identity": "a"}, {"identity": "b"})},
    ),
    Firing("B1", "error", "NCCL_IB_HCA=ib0", {}, "NCCL_IB_HCA=ibp"),
    Firing("B1", "error", "NCCL_IB_HCA==bond0:1", {}, "NCCL_IB_HCA==mlx5_bond_0:1"),
    Firing("B1b", "error", "NCCL_IB_HCA=^=mlx5_8,^=mlx5_14", {}, "NCCL_IB_HCA=^=mlx5_8,mlx5_14"),
    Firing(
        "B1c",
        "error",
        "",
        {"ranks": _node({"NCCL_IB_HCA": "mlx5_0"}, {"NCCL_IB_HCA": "mlx5_1"})},
        "",
        {"ranks": _ranks({"values": {"NCCL_IB_HCA": "mlx5_0"}}, {"values": {"NCCL_IB_HCA": "mlx5_1"}})},
    ),
    Firing("B2", "error", "NCCL_IB_HCA=mlx4", {"devices": infiniband("mlx5_0")}, "NCCL_IB_HCA=mlx5"),
    Firing(
        "B2",
        "error",
        "NCCL_IB_HCA=mlx5",
        {"devices": (Device("mlx5_0", active=False),)},
        "NCCL_IB_HCA=mlx5",
        {"devices": infiniband("mlx5_0")},
    ),
    Firing(
        "B3", "warning", "NCCL_IB_HCA=mlx5_1:1", {"devices": infiniband("mlx5_1", "mlx5_11")}, "NCCL_IB_HCA==mlx5_1:1"
    ),
    Firing(
        "B4",
        "warning",
        "",
        {"nodes": 2, "devices": (Device("mlx5_0"), Device("mlx5_1", "ethernet"))},
        "NCCL_IB_HCA==mlx5_0",
    ),
    Firing("B5", "warning", "NCCL_IB_GID_INDEX=3", ROCE, "NCCL_IB_GID_INDEX=3", {"net": "roce", "nccl": (2, 20, 5)}),
    Firing("B5", "warning", "NCCL_IB_GID_INDEX=3", {"net": "ib", **OLD}, "NCCL_IB_GID_INDEX=-1"),
    Firing(
        "B6",
        "error",
        "NCCL_IB_GID_INDEX=3 NCCL_IB_ADDR_FAMILY=AF_INET",
        {},
        "NCCL_IB_GID_INDEX=-1 NCCL_IB_ADDR_FAMILY=AF_INET",
    ),
    Firing("B7", "error", "NCCL_IB_GID_INDEX=1", {"devices": (roce("mlx5_0", V4, LINK),)}, "NCCL_IB_GID_INDEX=0"),
    Firing("B7", "error", "NCCL_IB_GID_INDEX=5", {"devices": (roce("mlx5_0", V4),)}, "NCCL_IB_GID_INDEX=0"),
    Firing("B7", "warning", "NCCL_IB_GID_INDEX=5", {"devices": (roce("mlx5_0", V4),), "nodes": 1}, "", {"nodes": 1}),
    Firing(
        "B7",
        "error",
        "NCCL_IB_GID_INDEX=1",
        {"devices": (roce("mlx5_0", V4, LINK),)},
        "NCCL_IB_GID_INDEX=1",
        {"devices": (replace(roce("mlx5_0", V4, LINK), active=False),)},
    ),
    Firing("B7", "warning", "NCCL_IB_GID_INDEX=1", {"devices": (roce("mlx5_0", V4, V1),)}, "NCCL_IB_GID_INDEX=0"),
    Firing(
        "B7",
        "warning",
        "NCCL_IB_GID_INDEX=0",
        {"devices": (roce("mlx5_0", V4), roce("mlx5_1", "fd02::1"))},
        "NCCL_IB_GID_INDEX=0 NCCL_IB_HCA==mlx5_0",
    ),
    Firing("B8", "error", "NCCL_IB_TIMEOUT=50", {}, "NCCL_IB_TIMEOUT=23"),
    Firing("B8", "error", "NCCL_IB_TIMEOUT=0", {}, "NCCL_IB_TIMEOUT=31"),
    Firing("B8b", "warning", "NCCL_IB_TIMEOUT=13", {}, "NCCL_IB_TIMEOUT=14"),
    Firing("B8b", "warning", "NCCL_IB_RETRY_CNT=0", {}, "NCCL_IB_RETRY_CNT=1"),
    Firing("B9", "error", "NCCL_IB_RETRY_CNT=13", {}, "NCCL_IB_RETRY_CNT=7"),
    Firing("B10", "error", "NCCL_IB_TC=256", {}, "NCCL_IB_TC=255 NCCL_IB_SL=15"),
    Firing("B10", "error", "NCCL_IB_SL=16", {}, "NCCL_IB_SL=-1"),
    Firing(
        "B11",
        "warning",
        "NCCL_CROSS_NIC=1",
        {"devices": infiniband("mlx5_0")},
        "NCCL_CROSS_NIC=1",
        {"devices": infiniband("mlx5_0", "mlx5_1")},
    ),
    Firing("B12", "warning", "", {"ranks": _ranks({"devices": 4}, {"devices": 2})}, "NCCL_IGNORE_NET_MISMATCH=0"),
    Firing("B13", "warning", "NCCL_IB_TC=106", {"verbs": False}, "NCCL_IB_TC=106", {"verbs": True}),
    Firing("B13", "warning", "", {"verbs": False, **ROCE}, "NCCL_NET=Socket"),
    Firing("B14", "warning", "", {"memory_lockable": False, **ROCE}, "", {"memory_lockable": False}),
    Firing(
        "B14",
        "warning",
        "",
        {"memory_lockable": False, "nodes": 2, "devices": infiniband("mlx5_0")},
        "",
        {"memory_lockable": False, "nodes": 2, "devices": (Device("mlx5_0", active=False),)},
    ),
    Firing("B15", "warning", "", {"traffic_class": 236, **ROCE}, "NCCL_IB_TC=236"),
    Firing(
        "B16",
        "error",
        "",
        {"ranks": _ranks({"transport": "IB"}, {"transport": "Socket"})},
        "",
        {"ranks": _ranks({"transport": "IB"}, {"transport": "IB"})},
    ),
    Firing("B17", "warning", "", {"rails_meet": False, **TWO}, "NCCL_CROSS_NIC=0"),
)
