"""`auto` takes what the preset that fits would look up, and the variables that a user adds."""

from __future__ import annotations

import pytest

from trainer.nccl.adapters import Adapter
from trainer.nccl.auto import Auto
from trainer.nccl.machine import Machine
from trainer.spec import ConfigError

IB = Adapter("mlx5_0", 1, "InfiniBand", True, 400.0)


def test_one_node_has_nothing_looked_up():
    assert Auto().found(Machine(gpu=True, nvlink=True)) == {}


def test_several_nodes_have_the_interface_for_both_libraries():
    here = Machine(nodes=2, gpu=True, interface="ens5", adapters=(IB,))
    assert Auto().found(here) == {"NCCL_SOCKET_IFNAME": "=ens5", "GLOO_SOCKET_IFNAME": "ens5"}
    assert (Auto().chosen(here), Auto().intended(here)) == ("ib", "ib")


def test_a_fast_ethernet_has_sockets_but_no_transport_is_ruled_out():
    here = Machine(nodes=2, gpu=True, interface="ens5", link_gbit=100)
    assert set(Auto().found(here)) == {
        "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"
    }  # fmt: skip


def test_an_interface_that_is_not_known_is_not_guessed():
    assert Auto().found(Machine(nodes=2, meets_at="nowhere")) == {}


def test_a_users_variable_is_handed_to_the_workers(make_run, monkeypatch):
    monkeypatch.delenv("NCCL_DEBUG", raising=False)
    assert make_run().nccl.environment() == {"NCCL_DEBUG": "WARN"}
    assert make_run("+nccl.env.NCCL_NTHREADS='256'").nccl.environment()["NCCL_NTHREADS"] == "256"


def test_a_value_that_is_no_text_is_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("nccl.env.NCCL_DEBUG=false")
    assert str(caught.value) == "nccl.env.NCCL_DEBUG: False is not allowed: input should be a valid string"


def test_a_name_that_is_no_variable_is_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("+nccl.env.nccl_debug=INFO")
    assert str(caught.value) == ("nccl.env: 'nccl_debug' is no name of an environment variable; write it in capitals")
