"""Lines of the form that NCCL documents and its releases since 2.24 print."""

from __future__ import annotations

import pytest

from trainer.nccl.log_lines import Choice, Collective, read

# What a process of two nodes with two GPUs each would say; rank 1 sends to the next node.
LOG = """\
n0:101:101 [0] NCCL INFO Bootstrap: Using ens5:10.0.0.1<0>
n0:101:101 [0] NCCL INFO cudaDriverVersion 13000
n0:101:101 [0] NCCL INFO NCCL version 2.30.7+cuda13.0
n0:101:140 [0] NCCL INFO NET/Socket : Using [0]ens5:10.0.0.1<0>
n0:101:140 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ens5:10.0.0.1<0>
n0:101:140 [0] NCCL INFO Using network IB
n0:101:140 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 8, bw 48.000000/48.000000, type NVL/PIX, sameChannels 1
n0:101:140 [0] NCCL INFO Pattern 1, crossNic 0, nChannels 8, bw 48.000000/48.000000, type SYS/PIX, sameChannels 0
n0:101:140 [0] NCCL INFO 16 coll channels, 16 collnet channels, 8 nvls channels, 16 p2p channels, 2 p2p channels per peer
n0:101:150 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
n0:101:150 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
n0:101:150 [0] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/1(1)/GDRDMA(PCI)/Shared
n0:101:101 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
n0:101:101 [0] NCCL INFO AllReduce: 26214400 Bytes -> Algo NVLSTREE proto SIMPLE channel{Lo..Hi}={0..7} cgaClusterSize 4
"""  # noqa: E501


def message(text: str) -> str:
    return f"host:7:8 [3] NCCL INFO {text}\n"


def test_everything_that_was_decided_is_found():
    assert read(LOG) == Choice(
        version="2.30.7",
        network="IB",
        devices=("mlx5_0:1/IB", "mlx5_1:1/IB"),
        pairs={
            (0, 1): "P2P/CUMEM/read",
            (3, 0): "NET/IB/0/GDRDMA",
            (1, 2): "NET/IB/1(1)/GDRDMA(PCI)/Shared",
        },
        channels=16,
        path="NVL",
        collectives=[
            Collective("AllReduce", 4, "TREE", "LL", 1),
            Collective("AllReduce", 26214400, "NVLSTREE", "SIMPLE", 8),
        ],
    )


@pytest.mark.parametrize(
    ("words", "transport"),
    [
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "SHM/direct/direct"),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", "P2P/direct pointer"),
        ("Channel 00/1 : 0[c0] -> 1[1] via P2P/IPC", "P2P/IPC"),
        ("Channel 03/0 : 0[0] -> 1[1] [send] via NET/Socket/0", "NET/Socket/0"),
        ("Channel 03/0 : 0[0] -> 1[1] [send] via NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric/0/GDRDMA"),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM comm 0x55d8 nRanks 02", "P2P/CUMEM"),
    ],
)
def test_every_transport_is_known_by_its_line(words, transport):
    assert read(message(words)).pairs == {(0, 1): transport}


@pytest.mark.parametrize(
    ("using", "network", "devices"),
    [
        ("Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>", "Socket", ("eth0:10.0.0.1<0>", "eth1:10.0.1.1<0>")),
        ("IB : Using [0]={[0] a:1/RoCE, [1] b:1/RoCE} ; OOB eth0:10.0.0.1<0>", "IB", ("a:1/RoCE", "b:1/RoCE")),
        ("IB : No device found.", "Socket", ()),
    ],
)
def test_devices_are_those_of_the_network_that_is_used(using, network, devices):
    found = read(message(f"NET/{using}") + message(f"Using network {network}"))
    assert (found.network, found.devices) == (network, devices)


def test_the_devices_of_another_network_do_not_count():
    assert read(message("NET/Socket : Using [0]eth0:10.0.0.1<0>") + message("Using network IB")).devices == ()


def test_the_list_of_a_rings_ranks_is_no_pair():
    assert read(message("Channel 00/02 : 0 1 2 3")).pairs == {}


@pytest.mark.parametrize("text", ["", "step 1 loss 2.3\n", "n0:1:1 [0] NCCL WARN Using network IB\n", "\n\n"])
def test_a_log_of_other_things_says_nothing(text):
    assert read(text) == Choice()
