"""What NCCL chose in words, and where the preset meant something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainer.nccl.log_lines import Choice, Collective
from trainer.nccl.verdict import differences, lines, merge

HOSTS = ["n0", "n0", "n1", "n1"]
GDR = "NET/IB/0/GDRDMA"
GOOD = Choice(
    version="2.30.7",
    network="IB",
    devices=("mlx5_0:1/IB",),
    pairs={(0, 1): "P2P/CUMEM", (1, 2): GDR, (2, 3): "P2P/CUMEM/read", (3, 0): GDR},
    channels=16,
    path="NVL",
    collectives=[Collective("AllReduce", 25 * 2**20, "RING", "SIMPLE", 16)],
)


def test_ranks_add_up_to_one_choice():
    first = replace(GOOD, pairs={(0, 1): "P2P/CUMEM", (1, 2): GDR}, path="PIX")
    second = replace(
        GOOD, pairs={(2, 3): "P2P/CUMEM/read", (3, 0): GDR}, collectives=[], devices=("mlx5_1:1/IB",), path="NVL"
    )
    assert merge([first, second]) == replace(GOOD, devices=("mlx5_0:1/IB", "mlx5_1:1/IB"), path="PIX")


def test_pairs_of_a_larger_communicator_are_left_out():
    logged = replace(GOOD, pairs={**GOOD.pairs, (6, 7): "SHM/direct"})
    assert lines(logged, HOSTS) == lines(GOOD, HOSTS)
    assert differences("ib", logged, HOSTS) == differences("ib", GOOD, HOSTS)


def test_ranks_on_different_networks_are_seen():
    assert merge([GOOD, replace(GOOD, network="Socket")]).network == "IB+Socket"


def test_it_is_said_in_four_lines():
    assert lines(GOOD, HOSTS) == [
        "NCCL 2.30.7, 16 channels",
        "inside a host: 2 pairs by P2P/CUMEM, the longest path is NVL",
        "between hosts: 2 pairs by NET/IB with GPUDirect RDMA, by mlx5_0:1/IB",
        "AllReduce of 25 MiB: ring with SIMPLE on 16 channels",
    ]


def test_what_nccl_did_not_say_is_not_said():
    assert lines(Choice(), HOSTS) == ["NCCL of unknown version, 0 channels"]


@pytest.mark.parametrize("intended", ["ib", None])
def test_what_was_meant_is_no_difference(intended):
    assert differences(intended, GOOD, HOSTS) == []


@pytest.mark.parametrize(
    ("intended", "choice", "words"),
    [
        ("ib", {"network": "Socket"}, "ib was meant, but NCCL took NET/Socket; look for /dev/infiniband"),
        ("roce", {"network": "Socket"}, "roce was meant, but NCCL took NET/Socket; look for /dev/infiniband"),
        ("ethernet", {}, "ethernet was meant, but NCCL took NET/IB; name it by nccl.env.NCCL_NET=Socket"),
        ("roce", {}, "roce was meant, but mlx5_0:1/IB is taken; name the adapters by nccl.env.NCCL_IB_HCA"),
        ("ib", {"devices": ("mlx5_1:1/RoCE",)}, "ib was meant, but mlx5_1:1/RoCE is taken"),
        ("ib", {"pairs": {(1, 2): "NET/IB/0"}}, "no pair uses GPUDirect RDMA"),
        ("nvlink", {"pairs": {(0, 1): "SHM/direct/direct"}}, "GPUs 0 and 1 of a host talk by SHM/direct/direct"),
        ("nvlink", {"pairs": {(0, 1): "P2P/IPC"}, "path": "PHB"}, "nvlink was meant, but the ring has a path of"),
        ("pcie", {"pairs": {(0, 1): "NET/Socket/0"}}, "GPUs 0 and 1 of one host talk by NET/Socket/0; look for NC"),
        (None, {"pairs": {(2, 3): "NET/Socket/0"}}, "GPUs 2 and 3 of a host talk by NET/Socket/0"),
    ],
)  # fmt: skip
def test_what_was_not_meant_is_named_with_what_to_look_at(intended, choice, words):
    (found,) = differences(intended, replace(GOOD, **choice), HOSTS)
    assert found.startswith(words)


def test_shared_memory_is_what_pcie_may_come_to():
    assert differences("pcie", replace(GOOD, pairs={(0, 1): "SHM/direct/direct"}), HOSTS) == []


def test_one_host_says_nothing_about_the_network():
    one = replace(GOOD, network="Socket", pairs={(0, 1): "P2P/CUMEM"})
    assert differences("ib", one, ["n0", "n0"]) == []
