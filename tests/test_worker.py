"""How many threads a worker computes with."""

from __future__ import annotations

import os

import pytest

from trainer import worker


@pytest.mark.parametrize(
    ("cores", "step", "threads"),
    [
        # Workers of train.py or torchrun share what their launcher has.
        (8, {}, 4),
        (8, {"SLURM_STEP_NUM_TASKS": "1", "SLURM_CPUS_PER_TASK": "8"}, 4),
        # A task that is bound sees its own cores, and one that is not all cores of the job.
        (4, {"SLURM_STEP_NUM_TASKS": "2", "SLURM_CPUS_PER_TASK": "4"}, 4),
        (8, {"SLURM_STEP_NUM_TASKS": "2", "SLURM_CPUS_PER_TASK": "4"}, 4),
        (64, {"SLURM_STEP_NUM_TASKS": "2", "SLURM_CPUS_PER_TASK": "6"}, 6),
    ],
)
def test_a_worker_computes_on_the_cores_that_are_its_own(make_run, monkeypatch, cores, step, threads):
    run = make_run("launch.processes=2")
    for name in ("SLURM_STEP_NUM_TASKS", "SLURM_CPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    assert worker._threads(run) == threads
