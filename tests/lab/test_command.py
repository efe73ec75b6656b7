"""What each host is told."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from trainer.lab.command import command_for, environment_for
from trainer.lab.layout import Lab

LAB = Lab("lab", 4, 2, "1gbit", IPv4Network("10.77.3.0/24"), 125_000_000)


@pytest.mark.parametrize(("cores", "threads"), [(2, 1), (8, 1), (32, 4)])
def test_train_py_learns_its_place_after_the_users_words(monkeypatch, cores, threads):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert command_for(LAB, 3, ["python", "-u", "/x/train.py", "model=vit"]) == [
        *["python", "-u", "/x/train.py", "model=vit"],
        *["launch.nodes=4", "launch.node_rank=3", "launch.processes=2", "launch.rendezvous=10.77.3.101:29500"],
        f"launch.threads={threads}",
    ]


@pytest.mark.parametrize("key", ["launch.processes", "launch.threads"])
@pytest.mark.parametrize("sign", ["", "+", "++"])
def test_what_the_user_says_wins(key, sign):
    told = command_for(LAB, 0, ["train.py", f"{sign}{key}=3"])
    assert [given for given in told if key in given] == [f"{sign}{key}=3"]
    assert "launch.nodes=4" in told


@pytest.mark.parametrize("command", [["python", "my_train.py"], ["iperf3", "-s"], ["sh", "-c", "python train.py a=b"]])
def test_other_commands_stay_as_they_are(command):
    assert command_for(LAB, 1, command) == command


def test_the_environment_names_the_place_the_interface_and_one_stamp():
    base = {"PATH": "/bin", "GLOO_SOCKET_IFNAME": "eth7", "NETLAB_HOST": "9"}
    told = environment_for(LAB, 1, base, "2026-01-01_00-00-00-000000")
    assert told["PATH"] == "/bin"
    assert [told[f"NETLAB_{name}"] for name in ("HOSTS", "HOST", "RANKS_PER_HOST")] == ["4", "1", "2"]
    assert (told["NETLAB_MASTER_ADDR"], told["NETLAB_MASTER_PORT"]) == ("10.77.3.101", "29500")
    assert told["GLOO_SOCKET_IFNAME"] == told["NCCL_SOCKET_IFNAME"] == "eth0"
    assert told["TRAINER_STARTED"] == "2026-01-01_00-00-00-000000"
    assert told["NCCL_HOSTID"] != environment_for(LAB, 2, base, "")["NCCL_HOSTID"]
    # With these set, train.py would think that torchrun started it.
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & set(told)
