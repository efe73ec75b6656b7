"""Several nodes, each with a launcher of its own, on one machine's loopback."""

from __future__ import annotations

import os
import socket

import pytest
from torch.distributed import TCPStore

from tests.processes import SMALL, run, started
from trainer import launch
from trainer.sweep.result import read_all

NODES = ("launch.nodes=2", "launch.processes=1", "nccl=none", "steps=4")


@pytest.fixture
def port(monkeypatch):
    """A port that nobody has, of a loopback that NCCL and Gloo are told of."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_an_agent_that_ends_leaves_the_meeting_place_open(port):
    place = launch._open_meeting_place(f"127.0.0.1:{port}")
    # As torch's agents open theirs for one launch.
    agents = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, multi_tenant=True)
    agents.set("said", "by the agent")
    del agents
    newcomer = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    assert newcomer.get("said") == b"by the agent"
    assert launch._open_meeting_place(f"127.0.0.1:{port}") is place


def test_launches_one_after_another_meet_each_time(tmp_path, monkeypatch, port):
    stamp = f"nodes{os.getpid()}"
    monkeypatch.setenv("TRAINER_STARTED", stamp)
    sweep = ("-m", *SMALL, *NODES, f"launch.rendezvous=127.0.0.1:{port}", "seed=1,2")
    with started(tmp_path, *sweep, "launch.node_rank=1") as other:
        code, output = run(tmp_path, *sweep, "launch.node_rank=0")
        others, _ = other.communicate(timeout=60)
    assert (code, other.returncode) == (0, 0), output + others
    assert [one.status for one in read_all(tmp_path / "runs" / "smoke" / stamp).values()] == ["done"] * 2


def test_a_port_that_somebody_has_is_told(tmp_path, port):
    with socket.create_server(("127.0.0.1", port)):
        code, output = run(tmp_path, *SMALL, *NODES, f"launch.rendezvous=127.0.0.1:{port}", "launch.node_rank=0")
    assert code == 2, output
    told = f"launch.rendezvous: node 0 cannot open 127.0.0.1:{port} (address already in use); choose another port"
    assert output.splitlines()[-1] == told
