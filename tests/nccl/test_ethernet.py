"""`ethernet`: several nodes over TCP, with as many sockets as the link needs."""

from __future__ import annotations

import pytest

from trainer.nccl.ethernet import Ethernet, nearest
from trainer.nccl.machine import Machine
from trainer.spec import ConfigError

INTERFACE = {"NCCL_SOCKET_IFNAME": "=ens5", "GLOO_SOCKET_IFNAME": "ens5"}


@pytest.mark.parametrize(("gbit", "sockets"), [(1, None), (10, None), (25, "2"), (100, "4")])
def test_sockets_follow_the_speed_of_the_link(gbit, sockets):
    several = {"NCCL_SOCKET_NTHREADS": sockets, "NCCL_NSOCKS_PERTHREAD": sockets} if sockets else {}
    here = Machine(nodes=2, gpu=True, interface="ens5")
    assert Ethernet(link_gbit=gbit).found(here) == INTERFACE | several


def test_one_node_needs_none():
    assert Ethernet(link_gbit=100).found(Machine()) == {}


def test_tcp_is_meant():
    assert Ethernet().env["NCCL_NET"] == "Socket"


def test_another_speed_is_refused(make_run):
    with pytest.raises(ConfigError, match=r"nccl\.link_gbit: 40 is not allowed: .* 1, 10, 25 or 100"):
        make_run("nccl=ethernet", "nccl.link_gbit=40")


@pytest.mark.parametrize(("gbit", "speed"), [(None, 1), (0.1, 1), (1, 1), (40, 25), (50, 25), (200, 100)])
def test_a_speed_between_two_is_the_lower_one(gbit, speed):
    assert nearest(gbit) == speed
