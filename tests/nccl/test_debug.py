"""`debug`: NCCL's log in the run's folder, and what it chose."""

from __future__ import annotations

from trainer.nccl.debug import Debug
from trainer.nccl.machine import Machine


def test_nccl_logs_into_a_file_a_process_of_the_run(make_run, monkeypatch):
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
        monkeypatch.delenv(name, raising=False)
    run = make_run("nccl=debug")
    assert run.nccl.environment() == {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
        "NCCL_DEBUG_FILE": f"{run.folder}/logs/nccl.%h.%p.log",
    }
    assert run.nccl.read_back


def test_a_file_that_the_user_names_is_kept(make_run, monkeypatch):
    monkeypatch.delenv("NCCL_DEBUG_FILE", raising=False)
    run = make_run("nccl=debug", "+nccl.env.NCCL_DEBUG_FILE='/tmp/%h.%p.log'")
    assert run.nccl.environment()["NCCL_DEBUG_FILE"] == "/tmp/%h.%p.log"


def test_the_machine_is_looked_at_as_by_auto():
    here = Machine(nodes=2, gpu=True, interface="ens5", link_gbit=25)
    assert Debug().found(here)["NCCL_SOCKET_NTHREADS"] == "2"
    assert Debug().intended(here) == "ethernet"
