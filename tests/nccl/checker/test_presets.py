"""Good settings are left in peace: the presets, and what operators of such networks set."""

from __future__ import annotations

import pytest
import yaml

from tests.nccl.checker.judging import judge
from trainer.nccl.checker import preset
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.sources import gather

NODE = {"nodes": 1, "processes": 8}
CLUSTER = {"nodes": 4, "processes": 8}
GOOD = {
    "nvlink": ("NCCL_DEBUG=WARN", {**NODE, "nvlink": True}),
    "nvlink rack": ("NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_NET_GDR_C2C=1", {**CLUSTER, "nvlink": True}),
    "nvlink for bitwise equal runs": ("NCCL_NVLS_ENABLE=0", {**NODE, "nvlink": True}),
    "pcie": ("NCCL_DEBUG=WARN", {**NODE, "nvlink": False}),
    "pcie with a measured level": ("NCCL_P2P_LEVEL=PHB", {**NODE, "nvlink": False}),
    "ib": ("NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0", {**CLUSTER, "net": "ib"}),
    "ib with some devices": (
        "NCCL_IB_HCA=^=mlx5_bond_0 NCCL_NET_PLUGIN=none NCCL_IB_TIMEOUT=22 NCCL_CROSS_NIC=0 "
        "NCCL_IB_PCI_RELAXED_ORDERING=1 NCCL_IB_QPS_PER_CONNECTION=4",
        {**CLUSTER, "net": "ib"},
    ),
    "ib with SHARP": ("NCCL_COLLNET_ENABLE=1 'NCCL_ALGO=allreduce:collnetchain,ring'", {**CLUSTER, "net": "ib"}),
    "roce": (
        "NCCL_SOCKET_IFNAME=eth0 NCCL_IB_HCA=ibp NCCL_IB_TC=96 NCCL_IB_ADAPTIVE_ROUTING=1 NCCL_NET_PLUGIN=none "
        "NCCL_IB_ADDR_FAMILY=AF_INET6 NCCL_IB_ADDR_RANGE=fd02::/16",
        {**CLUSTER, "net": "roce"},
    ),
    "roce of old": ("NCCL_IB_GID_INDEX=3 NCCL_IB_TC=106", {**CLUSTER, "net": "roce", "nccl": (2, 20, 5)}),
    "ethernet": ("NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0 NCCL_NET=Socket", {**CLUSTER, "net": "ethernet"}),
    "ethernet of 100 Gb/s": (
        "NCCL_NET=Socket NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4",
        {**CLUSTER, "net": "ethernet"},
    ),
    "ethernet without RDMA": ("NCCL_IB_DISABLE=1 NCCL_SOCKET_FAMILY=AF_INET", {**CLUSTER, "net": "ethernet"}),
    "efa": ("NCCL_NET=OFI NCCL_SOCKET_IFNAME=^docker,lo FI_EFA_USE_HUGE_PAGE=0", {**CLUSTER, "net": "efa"}),
    "slingshot": ("'NCCL_NET=AWS Libfabric' NCCL_NET_GDR_LEVEL=PHB NCCL_CROSS_NIC=1 NCCL_SOCKET_IFNAME=hsn", CLUSTER),
    "a run to find a fault": (
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log",
        {**CLUSTER, "diagnosing": True},
    ),
    "torchrun": (
        "TORCHELASTIC_RUN_ID=a TORCH_NCCL_ASYNC_ERROR_HANDLING=1 MASTER_ADDR=node0 MASTER_PORT=29500 RANK=0 "
        "LOCAL_RANK=0 WORLD_SIZE=32 OMP_NUM_THREADS=1 TORCHELASTIC_USE_AGENT_STORE=True",
        CLUSTER,
    ),
}
# What measuring would call for, which a preset would not set.
WARNED = {"ib with SHARP": {"A9"}}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_setting_is_left_in_peace(name):
    variables, known = GOOD[name]
    assert {one.rule for one in judge(variables, **known)} == WARNED.get(name, set())


@pytest.mark.parametrize("name", preset.presets())
def test_what_a_preset_sets_is_no_error(name):
    variables = yaml.safe_load((preset.FOLDER / f"{name}.yaml").read_text())["env"]
    nets = {"ib": "ib", "roce": "roce", "ethernet": "ethernet"}
    context = Context(nodes=1 if name in ("nvlink", "pcie") else 4, processes=8, net=nets.get(name), diagnosing=True)
    assert not check(gather({}, variables, {}, files=False, preset_name=name), context)


def test_torchruns_own_variable_contradicts_nothing():
    torchruns = "TORCHELASTIC_RUN_ID=a TORCH_NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_BLOCKING_WAIT=1"
    (found,) = judge(torchruns)
    assert (found.rule, found.severity) == ("O1", "warning")
