"""Runs on a real Slurm: of two nodes, preempted, queued again, cancelled."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, SMALL, losses
from tests.slurm.cluster import Cluster

SLURM = str(ROOT / "scripts" / "slurm")
RUN = (*SMALL, "steps=300", "log.every=1", "evaluate.every=null", "checkpoint.every=1000")
# The names of our nodes are known to Slurm alone.
MEETING = f"export MASTER_ADDR={socket.gethostname()}"
# What a job needs on a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(300)


def submit(folder: Path, *arguments: str) -> str:
    """The number of the job."""
    command = [sys.executable, SLURM, "--nodes", "2", "--processes", "1", "--setup", MEETING, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return re.match(r"job (\d+): 2 x 1 workers; scancel \1 ends it\n", done.stdout)[1]


def said(run: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(run.glob("slurm-*.out")))


def has_trained(run: Path) -> bool:
    return (run / "metrics.jsonl").exists() and len(losses(run)) > 20


def test_a_job_of_two_nodes_that_is_preempted_goes_on_as_if_nothing_had_happened(slurm: Cluster, tmp_path: Path):
    whole = submit(tmp_path, "--", *RUN, "folder=whole")
    slurm.until_done(whole)
    assert slurm.job(whole)["NodeList"] == "n[1-2]"
    assert "run folder: whole" in said(tmp_path / "whole")

    # Signs that mean something to Slurm and to the shell.
    run = tmp_path / "it's 100%j"
    job = submit(tmp_path, "--requeue", "--", *RUN, f"folder='{str(run.name).replace(chr(39), chr(92) + chr(39))}'")
    slurm.until("the job trains", lambda: has_trained(run))
    urgent = slurm.tell(
        "sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true"
    )
    slurm.until_done(urgent)
    slurm.until_done(job)
    assert slurm.job(job)["Restarts"] == "1"
    assert f"job {job} goes back into the queue" in said(run)
    assert losses(run) == losses(tmp_path / "whole")


def test_a_job_that_is_cancelled_saves_and_stays_out_of_the_queue(slurm: Cluster, tmp_path: Path):
    job = submit(tmp_path, "--requeue", "--", *RUN, "steps=1000000", "folder=run")
    slurm.until("the job trains", lambda: has_trained(tmp_path / "run"))
    slurm.tell("scancel", job)
    slurm.until("the job is gone", lambda: slurm.job(job)["JobState"] == "CANCELLED")
    assert list((tmp_path / "run" / "checkpoints").glob("step_*[0-9]"))
    assert not slurm.tell("squeue", "--noheader")
