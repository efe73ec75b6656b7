"""The interface that carries the traffic, and the speed that the system names."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.overlap import link

ROUTES = "Iface\tDestination\tGateway\nlo9\t0000000A\t00000000\neth7\t00000000\t0101A8C0\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "route").write_text(ROUTES)
    monkeypatch.setattr(link, "ROUTES", tmp_path / "route")
    monkeypatch.setattr(link, "SYSTEM", tmp_path)
    for name, speed in (("eth7", "25000\n"), ("ib0", "200000\n"), ("veth0", "-1\n")):
        (tmp_path / name / "device").mkdir(parents=True)
        (tmp_path / name / "speed").write_text(speed)
    return tmp_path


def test_the_interface_of_the_default_route_carries_the_traffic(system: Path):
    assert (link.interface(), link.speed_gbit()) == ("eth7", 25)


def test_an_interface_that_is_named_wins(system: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "ib0")
    assert (link.interface(), link.speed_gbit()) == ("ib0", 200)


def test_a_list_of_interfaces_names_none(system: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "^docker0,lo")
    assert link.interface() == "eth7"


@pytest.mark.parametrize("name", ["veth0", "absent"])
def test_a_speed_that_the_system_does_not_know_is_not_made_up(system: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", name)
    assert link.speed_gbit() is None


def test_the_speed_of_a_virtual_interface_is_not_believed(system: Path):
    (system / "eth7" / "device").rmdir()
    assert link.speed_gbit() is None


def test_without_routes_there_is_no_interface(system: Path):
    (system / "route").unlink()
    assert (link.interface(), link.speed_gbit()) == (None, None)
