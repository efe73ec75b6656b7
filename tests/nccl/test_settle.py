"""All sources put together: who wins, what is said, and what stops a run."""

from __future__ import annotations

import logging

import pytest

from trainer.nccl.adapters import Adapter
from trainer.nccl.auto import Auto
from trainer.nccl.ethernet import Ethernet
from trainer.nccl.ib import Ib
from trainer.nccl.machine import Machine
from trainer.nccl.none import Nothing
from trainer.nccl.settle import Use, judged, seen, settle, version
from trainer.spec import ConfigError

TWO = Machine(nodes=2, gpu=True, interface="ens5", meets_at="n0")
ONE = Machine(processes=2)


@pytest.fixture(autouse=True)
def no_files(monkeypatch, tmp_path):
    """This machine's own NCCL files are no part of a test."""
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_users_environment_wins_over_the_run_and_the_run_over_the_preset():
    nccl = Ib(env={"NCCL_DEBUG": "INFO", "NCCL_NVLS_ENABLE": "0"})
    assert settle(nccl, TWO, {"NCCL_SOCKET_IFNAME": "=ens6", "PATH": "/bin"}) == {
        "NCCL_DEBUG": "INFO",
        "NCCL_NVLS_ENABLE": "0",
        "GLOO_SOCKET_IFNAME": "ens5",
    }


def test_what_the_user_takes_out_of_a_preset_stays_out():
    assert settle(Ib(env={}), ONE, {}) == {}


def test_one_line_says_what_was_seen_and_set_and_one_what_the_environment_keeps(caplog):
    with caplog.at_level(logging.INFO, "trainer"):
        settle(Ib(), ONE, {"NCCL_DEBUG": "VERSION", "NCCL_HOSTID": "a", "GLOO_SOCKET_IFNAME": "lo"})
    assert caplog.messages[:2] == [
        "nccl: ib sees 1 node, 2 workers, no GPU; sets nothing; Gloo carries the gradients on a CPU, where NCCL's"
        " settings have no effect",
        "nccl: your environment has NCCL_DEBUG=VERSION (not WARN), NCCL_HOSTID=a, which wins",
    ]


def test_auto_says_what_it_takes():
    adapters = (Adapter("mlx5_0", 1, "InfiniBand", True, 400.0),)
    here = Machine(nodes=2, processes=8, gpu=True, nvlink=True, interface="ens5", meets_at="n0", adapters=adapters)
    (line,) = seen(Auto(), here, {"NCCL_DEBUG": "WARN"}, {})
    assert line == (
        "auto sees 2 nodes x 8 workers, GPUs with NVLink, ens5 on the route to n0, 1 RDMA port (InfiniBand of"
        " 400 Gbit/s) and takes ib; sets NCCL_DEBUG=WARN"
    )


def test_an_error_stops_the_run_and_names_what_set_it():
    with pytest.raises(ConfigError) as caught:
        settle(Ib(env={"NCCL_P2P_LEVEL": "PCI"}), ONE, {})
    assert str(caught.value).startswith("nccl: NCCL_P2P_LEVEL=PCI (nccl.env): ")
    assert all(word in str(caught.value) for word in ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS"))


def test_a_variable_that_nobody_reads_is_answered_with_those_that_exist():
    with pytest.raises(ConfigError) as caught:
        settle(Ethernet(), ONE, {"NCCL_NUM_THREADS": "256"})
    assert "(environment)" in str(caught.value)
    assert "NCCL_NTHREADS" in str(caught.value)
    assert "NCCL_SOCKET_NTHREADS" in str(caught.value)


def test_a_setting_that_the_preset_makes_useless_is_a_contradiction():
    with pytest.raises(ConfigError, match=r"NCCL_NET=Socket \(preset ethernet\): .* NCCL_IB_HCA can have no effect"):
        settle(Ethernet(env=Ethernet().env | {"NCCL_IB_HCA": "mlx5_0"}), ONE, {})


def test_warnings_are_logged_once_and_stop_nothing(caplog):
    with caplog.at_level(logging.WARNING, "trainer"):
        settle(Ib(env={"NCCL_NVLS_ENABLE": "1"}), TWO, {})
    assert sum("NCCL_NVLS_ENABLE=1 (nccl.env)" in message for message in caplog.messages) == 1


def test_a_file_of_nonsense_is_logged_in_a_few_lines(caplog, tmp_path):
    (tmp_path / "binary").write_bytes(b"\x7f\x00\xff\n" * 50)
    with caplog.at_level(logging.WARNING, "trainer"):
        settle(Ib(), ONE, {"NCCL_CONF_FILE": str(tmp_path / "binary")})
    assert sum(str(tmp_path) in message for message in caplog.messages) == 11


def test_a_long_value_of_others_is_not_shown_as_a_whole(caplog):
    with caplog.at_level(logging.INFO, "trainer"):
        assert "PATH" not in settle(Ib(env={"PATH": "/nonsense"}), ONE, {"PATH": "/bin:" * 50})
    assert not any("/bin:" * 13 in message for message in caplog.messages)
    assert any("PATH=/nonsense (nccl.env): is none of the transport's variables" in one for one in caplog.messages)


def test_a_container_that_got_too_little_is_warned_of(caplog):
    here = Machine(processes=8, gpu=True, nvlink=False, shared_bytes=64 * 2**20)
    with caplog.at_level(logging.WARNING, "trainer"):
        settle(Auto(), here, {})
    assert [message for message in caplog.messages if "/dev/shm" in message and "sees" not in message] == [
        "nccl: /dev/shm: has 64 MiB for 8 processes that may not all reach each other's GPU; start the container with"
        " --shm-size=1g or --ipc=host, or mount memory there"
    ]


def test_a_limit_on_locked_memory_is_told_once_where_rdma_is_used(caplog):
    adapters = (Adapter("mlx5_0", 1, "InfiniBand", True, 400.0),)
    here = Machine(nodes=2, processes=8, gpu=True, nvlink=True, adapters=adapters, locked_bytes=65536, interface="ens5")
    for nccl, told in ((Ib(), 1), (Auto(), 1), (Nothing(), 1), (Ethernet(), 0)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "trainer"):
            settle(nccl, here, {})
        assert sum("ulimit -l" in message for message in caplog.messages) == told, nccl


def test_without_a_gpu_the_settings_are_judged_for_another_machine():
    adapters = (Adapter("mlx5_0", 1, "Ethernet", True, 400.0), Adapter("efa_0", 1, "Unspecified", True, None))
    here = Machine(nodes=2, processes=8, adapters=adapters, interfaces=())
    context = judged(Ib(), here)
    assert (context.backend, context.net, context.interfaces, context.devices) == ("nccl", "ib", None, None)
    there = judged(Ib(), Machine(nodes=2, gpu=True, adapters=adapters, interfaces=()))
    assert there.local
    assert [(device.name, device.link) for device in there.devices] == [("mlx5_0", "ethernet")]


def test_what_the_run_asks_of_its_groups_is_judged(make_run, caplog):
    run = make_run("parallel=pipeline", "launch.timeout_s=900")
    assert Use.of(run) == Use(timeout_s=900.0, sharding=None, messages=True)
    assert Use.of(make_run("parallel=tensor", "model=vit", "model.patch=4")).sharding == "tensor"
    assert Use.of(make_run("parallel=fsdp")).sharding == "fsdp"
    short = {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "600"}
    with caplog.at_level(logging.WARNING, "trainer"):
        settle(Ib(), TWO, short, Use.of(run))
    assert any("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600" in message and "900" in message for message in caplog.messages)


def test_a_single_node_preset_is_no_network():
    assert judged(Auto(), Machine(gpu=True, nvlink=True)).net is None


def test_torch_knows_its_nccl_or_has_none():
    found = version()
    assert found is None or found >= (2, 20, 0)


def test_the_settled_variables_are_in_the_run(make_run, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "VERSION")
    run = make_run("nccl=ethernet")
    assert run.nccl.env == {"NCCL_NET": "Socket"}
