"""Ranks whose variables differ where NCCL needs them alike do not start, and all say why."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading

import pytest
import torch.distributed as dist

from tests.processes import SMALL, TRAIN
from trainer.nccl.agreement import Told, compare, difference
from trainer.spec import ConfigError

TIMEOUT = datetime.timedelta(seconds=20)


def told(*ranks: tuple[str, dict[str, str]]) -> list[Told]:
    return [Told(node, values) for node, values in ranks]


def test_equal_ranks_agree():
    assert difference(told(("a", {"NCCL_ALGO": "^PAT"}), ("b", {"NCCL_ALGO": "^PAT"}))) is None
    assert difference(told(("a", {}))) is None


def test_a_difference_names_the_ranks_the_variable_and_both_values():
    ranks = told(("a", {"NCCL_NTHREADS": "256"}), ("a", {"NCCL_NTHREADS": "256"}), ("b", {"NCCL_NTHREADS": "512"}))
    assert difference(ranks) == (
        "nccl: NCCL_NTHREADS is '256' on rank 0 and '512' on rank 2, but must be the same on all ranks; set it alike in"
        " every node's environment, or in none and by nccl.env.NCCL_NTHREADS=<value>"
    )


def test_a_variable_that_only_one_has_is_a_difference():
    line = difference(told(("a", {}), ("b", {"NCCL_PROTO": "^LL128"})))
    assert line.startswith("nccl: NCCL_PROTO is not set on rank 0 and '^LL128' on rank 1, but must be the same on all")


def test_what_belongs_to_a_node_may_differ_between_nodes_only():
    def named(*interfaces: str) -> list[Told]:
        return told(*(("ab"[rank // 2], {"NCCL_SOCKET_IFNAME": name}) for rank, name in enumerate(interfaces)))

    assert difference(named("=eth0", "=eth0", "=ens5", "=ens5")) is None
    assert difference(named("=eth0", "=eth0", "=ens5", "=ens6")).startswith(
        "nccl: NCCL_SOCKET_IFNAME is '=ens5' on rank 2 and '=ens6' on rank 3, but must be the same on all ranks of a"
        " node;"
    )


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"])
def test_what_only_shows_in_a_log_may_differ(name):
    assert difference(told(("a", {name: "x"}), ("a", {}))) is None


def test_a_variable_of_a_release_to_come_must_be_alike():
    assert "NCCL_OF_TOMORROW" in difference(told(("a", {"NCCL_OF_TOMORROW": "1"}), ("a", {})))


def test_what_torch_reads_for_nccl_must_be_alike_where_it_is_of_the_job():
    assert difference(told(("a", {"TORCH_NCCL_BLOCKING_WAIT": "1"}), ("b", {}))).startswith(
        "nccl: TORCH_NCCL_BLOCKING_WAIT is '1' on rank 0 and not set on rank 1, but must be the same on all ranks; set"
    )
    assert difference(told(("a", {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/a"}), ("a", {}))) is None


def test_a_nodes_own_variable_may_be_unset_on_another():
    assert difference(told(("a", {"NCCL_SOCKET_IFNAME": "=eth0"}), ("b", {}))) is None


def meet(environments: list[dict[str, str]]) -> list[str | None]:
    """What each of as many ranks is refused with, over a real store."""
    store = dist.HashStore()
    refused: list[str | None] = [None] * len(environments)

    def rank(number: int) -> None:
        try:
            compare(store, number, len(environments), TIMEOUT, environments[number])
        except ConfigError as error:
            refused[number] = str(error)

    threads = [threading.Thread(target=rank, args=[number]) for number in range(len(environments))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def test_all_ranks_get_the_same_refusal():
    refused = meet([{"NCCL_NTHREADS": "256"}, {"NCCL_NTHREADS": "256"}, {"NCCL_NTHREADS": "512"}])
    assert len(set(refused)) == 1
    assert "'512' on rank 2" in refused[0]


def test_all_ranks_go_on_where_nothing_differs():
    assert meet([{"NCCL_NTHREADS": "256", "HOME": str(number)} for number in range(3)]) == [None] * 3


def test_a_run_with_a_difference_ends_before_the_first_step(tmp_path):
    """Two tasks of a Slurm step, of which one has another environment."""
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_JOB_ID": f"1{os.getpid()}"}
    tasks = [
        subprocess.Popen(
            [sys.executable, TRAIN, *SMALL],
            cwd=tmp_path,
            env=os.environ
            | step
            | {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task), "MASTER_ADDR": "localhost"}
            | {"NCCL_MAX_CTAS": str(8 + task)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for task in range(2)
    ]
    outputs = [task.communicate(timeout=100)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [2, 2], outputs
    assert "nccl: NCCL_MAX_CTAS is '8' on rank 0 and '9' on rank 1" in outputs[0]
    assert "step " not in outputs[0]
