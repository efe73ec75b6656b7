"""Interfaces are found in the kernel's tables, never guessed."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.nccl import trees
from trainer.nccl import routes
from trainer.nccl.routes import interface_towards, numeric, own_address, speed_gbit

UP, GATEWAY, REJECT = 0x1, 0x3, 0x201


def known(host):
    return {"n0": "10.1.2.3", "far": "8.8.8.8", "me": "127.0.1.1", "six": "fd02::7", "here6": "fd02::2"}.get(host)


@pytest.fixture
def proc(tmp_path):
    trees.routes(
        tmp_path,
        ("eth0", "0.0.0.0", "0.0.0.0", 100, GATEWAY),
        ("wlan0", "0.0.0.0", "0.0.0.0", 600, GATEWAY),
        ("ib0", "10.1.0.0", "255.255.0.0", 0, UP),
        ("bond0", "10.1.2.0", "255.255.255.0", 0, UP),
        ("down0", "10.1.2.2", "255.255.255.254", 0, 0),
        ("hole0", "10.1.2.2", "255.255.255.254", 0, REJECT),
    )
    none = "0" * 32
    trees.write(
        tmp_path / "net" / "ipv6_route",
        f"fd02{'0' * 28} 40 {none} 00 {none} 00000100 00000001 00000000 00000001 ens5\n"
        f"fd02{'0' * 27}2 80 {none} 00 {none} 00000000 00000003 00000000 80200001 lo\n",
    )
    trees.write(tmp_path / "net" / "if_inet6", "fd020000000000000000000000000002 02 40 00 80 ens6\n")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "interface"),
    [("n0", "bond0"), ("far", "eth0"), ("10.1.9.9", "ib0"), ("six", "ens5"), ("here6", "ens6")],
)
def test_the_narrowest_network_that_is_up_wins_and_then_the_lowest_metric(proc, host, interface):
    assert interface_towards(host, proc, lambda name: known(name) or name) == interface


@pytest.mark.parametrize("host", ["me", "nobody"])
def test_a_loopback_and_an_unknown_host_have_no_interface(proc, host):
    assert interface_towards(host, proc, known) is None


def test_without_tables_nothing_is_found(tmp_path):
    assert interface_towards("n0", tmp_path, known) is None
    assert interface_towards("six", tmp_path, known) is None


def test_names_are_asked_of_the_system():
    assert numeric("127.0.0.1") == "127.0.0.1"
    assert numeric("no-such-host.invalid") is None


@pytest.mark.parametrize(
    ("speed", "vendor", "gbit"),
    [("100000", "0x15b3", 100.0), ("-1", "0x15b3", None), ("10000", None, None), ("25000", "0x1d0f", None)],
)
def test_a_speed_is_believed_of_hardware_only(tmp_path, speed, vendor, gbit):
    trees.interface(tmp_path, "eth0", speed, vendor)
    assert speed_gbit("eth0", tmp_path) == gbit


def test_an_interface_that_does_not_say_its_speed_has_none(tmp_path):
    trees.write(tmp_path / "class" / "net" / "eth0" / "device" / "vendor", "0x15b3\n")
    assert speed_gbit("eth0", tmp_path) is None


def test_what_the_hosts_own_name_resolves_to():
    assert own_address({socket.gethostname(): "127.0.1.1"}.__getitem__) == "127.0.1.1"


def test_a_name_that_is_unknown_or_not_answered_for_has_no_address(monkeypatch):
    def refuse(name):
        raise socket.gaierror("unknown")

    assert own_address(refuse) is None
    monkeypatch.setattr(routes, "PATIENCE_S", 0.01)
    never = threading.Event()
    assert own_address(lambda name: str(never.wait())) is None
    never.set()
