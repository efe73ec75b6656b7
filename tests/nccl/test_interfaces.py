"""Interfaces: every machine has a loopback, whose address is known."""

from __future__ import annotations

from pathlib import Path

from tests.nccl import trees
from trainer.nccl.interfaces import find


def test_the_loopback_is_found_with_its_network():
    loopback = next(one for one in find(Path("/proc")) if one.name == "lo")
    assert loopback.up
    assert "127.0.0.1/8" in loopback.addresses


def test_newer_addresses_are_read_from_the_table(tmp_path):
    trees.write(tmp_path / "net" / "if_inet6", "fd020000000000000000000000000002 01 40 00 80 lo\n")
    loopback = next(one for one in find(tmp_path) if one.name == "lo")
    assert loopback.addresses == ("127.0.0.1/8", "fd02::2/64")
