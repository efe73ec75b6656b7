"""What a preset takes along from a run, and what stays where it ran."""

from __future__ import annotations

from trainer.preset.portable import portable

OPTIONS = {
    "folder": "runs/x/1",
    "place": {"device": "cpu"},
    "seed": 3,
    "checkpoint": {"every": 5, "resume": "runs/x/0"},
    "launch": {
        "processes": 4,
        "nodes": 2,
        "node_rank": 1,
        "rendezvous": "n0:29500",
        "threads": 1,
        "max_restarts": 1,
    },
    "nccl": {"env": {"NCCL_DEBUG": "WARN"}},
    "logger": {"wandb": {"project": "ours", "group": "2026-11-30_sweep"}},
    "dry_run": True,
}


def _left_out(**env: str) -> list[str]:
    kept, left_out = portable(OPTIONS | {"nccl": {"env": env}})
    assert {**kept["nccl"]["env"], **left_out} == env
    return sorted(left_out)


def test_where_a_run_was_what_it_resumed_and_its_sweep_are_left_out():
    kept, left_out = portable(OPTIONS)
    assert kept == {
        "seed": 3,
        "checkpoint": {"every": 5},
        "launch": {"max_restarts": 1},
        "nccl": {"env": {"NCCL_DEBUG": "WARN"}},
        "logger": {"wandb": {"project": "ours"}},
    }
    assert left_out == {}
    assert OPTIONS["launch"]["nodes"] == 2


def test_interfaces_are_looked_up_anew_everywhere():
    names = ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"]
    assert _left_out(NCCL_SOCKET_IFNAME="=eth0", GLOO_SOCKET_IFNAME="eth0", NCCL_IB_TC="106") == names


def test_sockets_are_left_out_where_the_speed_of_the_link_gave_them():
    names = ["NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS"]
    assert _left_out(NCCL_SOCKET_NTHREADS="2", NCCL_NSOCKS_PERTHREAD="2") == names
    assert _left_out(NCCL_SOCKET_NTHREADS="2", NCCL_NSOCKS_PERTHREAD="8") == []


def test_the_log_in_the_runs_folder_is_left_out_and_any_other_kept():
    assert _left_out(NCCL_DEBUG_FILE="runs/x/1/logs/nccl.%h.%p.log") == ["NCCL_DEBUG_FILE"]
    assert _left_out(NCCL_DEBUG_FILE="/var/log/nccl.log") == []
