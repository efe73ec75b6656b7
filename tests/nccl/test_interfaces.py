"""Interfaces: every machine has a loopback, whose address is known."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.nccl import trees
from trainer.nccl.checker.context import Interface
from trainer.nccl.interfaces import find, taken


def test_the_loopback_is_found_with_its_network():
    loopback = next(one for one in find(Path("/proc")) if one.name == "lo")
    assert loopback.up
    assert "127.0.0.1/8" in loopback.addresses


def test_newer_addresses_are_read_from_the_table(tmp_path):
    trees.write(tmp_path / "net" / "if_inet6", "fd020000000000000000000000000002 01 40 00 80 lo\n")
    loopback = next(one for one in find(tmp_path) if one.name == "lo")
    assert loopback.addresses == ("127.0.0.1/8", "fd02::2/64")


def test_interfaces_have_the_kernels_numbers():
    assert {one.name: one.index for one in find(Path("/proc"))} == {
        name: index for index, name in socket.if_nameindex()
    }


def _named(*names: str, address: str = "10.0.0.1/24") -> list[Interface]:
    """Interfaces in the kernel's order, given in another."""
    return [Interface(name, True, (address,), index) for index, name in reversed(list(enumerate(names, 1)))]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("lo", "docker0", "ens6", "eth0"), "ens6"),
        (("lo", "eth0", "ibp0", "ib1"), "ibp0"),
        (("lo", "virbr0", "docker0"), "docker0"),
        (("virbr0", "lo"), "lo"),
        (("virbr0",), "virbr0"),
        ((), None),
    ],
)
def test_nccl_takes_the_first_of_the_best_kind(names, found):
    assert taken(_named(*names)) == found


def test_what_is_down_or_has_no_address_is_not_taken_and_ipv4_comes_first():
    six = _named("eth0", address="fd02::1/64")
    assert taken([Interface("eth2", False, ("10.0.0.1/24",)), Interface("eth3"), *six]) == "eth0"
    assert taken([*six, Interface("eth9", True, ("10.0.0.1/24", "fd02::2/64"), 9)]) == "eth9"
