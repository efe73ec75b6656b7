"""What a machine has to communicate with, and how that is said."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.nccl import trees
from trainer.nccl import gpus, routes
from trainer.nccl.adapters import Adapter
from trainer.nccl.gpus import UNKNOWN, Gpus
from trainer.nccl.machine import Machine, look, node_name, see

IB = Adapter("mlx5_0", 1, "InfiniBand", True, 400.0)
TWO = ("launch.nodes=2", "launch.processes=1")


@pytest.fixture
def cluster(tmp_path):
    """A node with a route of its own to 10.1.2.3."""
    made = trees.roots(tmp_path / "root")
    trees.routes(made.proc, ("ens5", "10.1.2.0", "255.255.255.0", 0, 1))
    trees.interface(made.sys, "ens5", "25000")
    trees.adapter(made.sys, "mlx5_0", "InfiniBand")
    trees.write(made.proc / "self" / "limits", "Max locked memory         65536   65536   bytes\n")
    (made.dev / "shm").mkdir(parents=True)
    return made


def test_several_nodes_have_the_interface_on_the_route_to_the_rendezvous(make_run, cluster):
    here = look(make_run(*TWO, "launch.rendezvous=10.1.2.3:29500", "nccl=none"), cluster)
    assert (here.meets_at, here.interface, here.link_gbit) == ("10.1.2.3", "ens5", 25.0)
    assert here.adapters == (IB,)
    assert here.locked_bytes == 65536
    assert here.shared_bytes > 0
    assert str(here) == (
        "2 nodes x 1 worker, no GPU, ens5 of 25 Gbit/s on the route to 10.1.2.3, 1 RDMA port (InfiniBand of 400 Gbit/s)"
    )


def test_workers_of_another_launcher_meet_at_its_address(make_run, cluster, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.1.2.9"}.items():
        monkeypatch.setenv(name, value)
    here = look(make_run("nccl=none"), cluster)
    assert (here.meets_at, here.interface) == ("10.1.2.9", "ens5")


def test_a_literal_address_with_a_port_is_taken_apart(make_run, cluster):
    trees.write(cluster.proc / "net" / "if_inet6", "fd020000000000000000000000000002 02 40 00 80 ens6\n")
    here = look(make_run(*TWO, "launch.rendezvous='[fd02::2]:29500'", "nccl=none"), cluster)
    assert here.interface == "ens6"


def test_one_node_needs_no_interface(make_run, cluster):
    here = look(make_run(), cluster)
    assert here.interface is None
    assert str(here) == "1 node, 2 workers, no GPU"


def test_a_machine_that_describes_nothing_works(make_run, tmp_path):
    here = look(make_run(*TWO, "launch.rendezvous=10.1.2.3:29500", "nccl=none"), trees.roots(tmp_path / "nothing"))
    assert here == Machine(nodes=2, processes=1, meets_at="10.1.2.3")
    assert str(here) == "2 nodes x 1 worker, no GPU, no interface known on the route to 10.1.2.3, no RDMA adapter"


def test_gpus_are_named_with_what_joins_them():
    assert str(Machine(gpu=True, processes=8, nvlink=True)) == "1 node, 8 workers, GPUs with NVLink"
    assert "nvidia-ml-py" in str(Machine(gpu=True, nvlink=None))


def test_little_locked_memory_is_a_complaint_where_a_fabric_that_the_checker_does_not_know_needs_it():
    efa = Adapter("efa_0", 1, "Unspecified", True, None)
    small = Machine(nodes=2, processes=8, gpu=True, interface="ens5", adapters=(efa,), locked_bytes=65536)
    (locked,) = small.complaints()
    assert locked.startswith("locked memory: RDMA needs more than the limit of 64 KiB; start with ulimit -l")
    assert replace(small, locked_bytes=math.inf).complaints() == []
    for other in ({"nodes": 1}, {"gpu": False}, {"adapters": ()}, {"adapters": (IB,)}):
        assert replace(small, **other).complaints() == []


def test_an_interface_that_is_not_found_is_a_complaint_unless_it_is_named():
    lost = Machine(nodes=2, meets_at="n0")
    (complaint,) = lost.complaints()
    assert complaint.startswith("launch.rendezvous: n0 is unknown here or stands for the loopback; write its address")
    assert lost.complaints(named=True) == []


def test_namespaces_of_one_machine_are_nodes_apart(monkeypatch):
    monkeypatch.setenv("GROUP_RANK", "0")
    first = node_name()
    monkeypatch.setenv("GROUP_RANK", "1")
    assert node_name() != first


def test_all_is_seen_of_a_machine_whose_settings_are_judged(cluster, monkeypatch):
    told = Gpus(2, True, frozenset({"NV"}), True)
    monkeypatch.setattr(gpus, "look", lambda: told)
    trees.write(cluster.dev / "infiniband" / "uverbs0", "")
    trees.write(cluster.dev / "lib" / "libnccl-net.so", "")
    monkeypatch.setattr(routes, "own_address", lambda: "10.1.2.9")
    environment = {"LD_LIBRARY_PATH": f"{cluster.dev}/lib"}
    here = see(2, 8, None, roots=cluster, environment=environment)
    assert (here.gpu, here.nvlink, here.gpus, here.verbs) == (True, True, told, True)
    assert here.plugin == f"{cluster.dev}/lib/libnccl-net.so"
    assert here.host_address == "10.1.2.9"
    assert "lo" in [one.name for one in here.interfaces]
    assert see(1, 8, None, roots=cluster, environment={}).host_address is None


def test_without_a_gpu_the_rest_is_seen_where_it_is_asked_for(cluster, monkeypatch):
    monkeypatch.setattr(gpus, "look", lambda: UNKNOWN)
    here = see(1, 1, None, roots=cluster, environment={})
    assert (here.gpu, here.verbs, here.locked_bytes) == (False, None, 65536)
    assert here.interfaces
    assert see(1, 1, False, roots=cluster).interfaces is None
