"""Who starts the processes, and what Slurm's variables mean."""

from __future__ import annotations

import subprocess

import pytest

from trainer import place
from trainer.spec import ConfigError

STEP = {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "3",
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
}


def test_torchruns_variables_make_this_process_a_worker():
    assert place.launcher({"RANK": "0", "WORLD_SIZE": "2"}) == "other"
    assert place.launcher({}) == "train"


def test_only_a_step_of_several_tasks_is_sruns():
    assert place.is_srun_task(STEP)
    # What a batch script or an interactive shell inside an allocation sees.
    assert not place.is_srun_task({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
    assert not place.is_srun_task({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})


def test_srun_gives_torchs_rendezvous():
    adopted = place.adopt_srun(STEP)
    assert {name: adopted[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")} == {
        "RANK": "3",
        "LOCAL_RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "4",
    }
    assert 20000 <= int(adopted["MASTER_PORT"]) < 40000
    assert adopted["MASTER_PORT"] == place.adopt_srun({**STEP, "SLURM_PROCID": "0"})["MASTER_PORT"]
    assert adopted["MASTER_PORT"] != place.adopt_srun({**STEP, "SLURM_STEP_ID": "1"})["MASTER_PORT"]


def test_a_first_node_without_an_address_is_refused(monkeypatch):
    """Its name may be known to Slurm alone."""
    named = subprocess.CompletedProcess([], 0, "no-such-node.invalid\nother\n")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: named)
    step = {**STEP, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[1-2]"}
    with pytest.raises(ConfigError, match="the first node of the step, has no address"):
        place.adopt_srun(step)
    assert place.adopt_srun({**step, "MASTER_ADDR": "10.0.0.1"})["MASTER_ADDR"] == "10.0.0.1"


def test_a_task_joins_its_step_once():
    environment = dict(STEP)
    place.join_srun(environment)
    assert environment["RANK"] == "3"
    joined = {**environment, "SLURM_PROCID": "0"}
    place.join_srun(joined)
    assert joined["RANK"] == "3"


def test_uneven_nodes_are_refused():
    with pytest.raises(ConfigError) as caught:
        place.adopt_srun({**STEP, "SLURM_STEP_NUM_NODES": "3"})
    assert str(caught.value) == (
        "launch: srun started 4 tasks on 3 nodes; use --ntasks-per-node so that every node has as many"
    )


def test_torchrun_that_lets_no_host_come_back_is_warned_of(make_run, monkeypatch, caplog):
    agent = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2"}
    for name, value in {**agent, "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_MAX_RESTARTS": "3"}.items():
        monkeypatch.setenv(name, value)
    make_run()
    assert "set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 on every host" in caplog.text
    caplog.clear()
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "False")
    make_run()
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in caplog.text


def test_the_batch_stays_what_it_is_when_hosts_come_and_go(make_run, monkeypatch):
    """As under torchrun --nnodes=1:3."""
    monkeypatch.setenv("RANK", "0")
    shares = {}
    for hosts in (1, 2):
        monkeypatch.setenv("WORLD_SIZE", str(hosts))
        run = make_run("batch.size=64")
        shares[hosts] = (run.batch.size, run.share)
    assert shares == {1: (64, 64), 2: (64, 32)}
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match="64 does not divide by 3 data ranks"):
        make_run("batch.size=64")


def test_a_mesh_that_needs_one_process_gets_one(make_run):
    assert make_run("parallel=none").place.processes == 1
    assert make_run("parallel.data.size=4").place.processes == 4
    assert make_run().place.processes == 2
