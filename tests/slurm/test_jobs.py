"""Runs on a real Slurm: of two nodes, preempted, queued again, cancelled."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, SLOW, SMALL, losses, path_with_slow_model
from tests.slurm.cluster import Cluster

SLURM = str(ROOT / "scripts" / "slurm")
# Steps long enough, and enough of them, for Slurm to find out that it must preempt. Who stops one saves it once.
STEPS = 200
RUN = (*SMALL, *SLOW, f"steps={STEPS}", "log.every=1", "evaluate.every=null", "checkpoint.every=1000")
# The names of our nodes are known to Slurm alone.
MEETING = f"export MASTER_ADDR={socket.gethostname()}"
# What jobs need on a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where jobs are submitted."""
    monkeypatch.setenv("PYTHONPATH", path_with_slow_model(tmp_path))
    return tmp_path


def submit(place: Path, *arguments: str) -> str:
    """The number of the job."""
    command = [sys.executable, SLURM, "--processes", "1", "--setup", MEETING, *arguments]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found = re.match(r"job (\d+): \d x 1 workers; scancel \1 ends it\n", done.stdout)
    assert found
    return found[1]


def trains(run: Path) -> bool:
    return (run / "metrics.jsonl").exists() and len(losses(run)) >= 5


def test_a_job_of_two_nodes_that_is_preempted_goes_on_as_if_nothing_had_happened(slurm: Cluster, place: Path):
    # Signs that mean something to Slurm, to the shell and to Hydra.
    run = place / "it's 100%j"
    job = submit(place, "--nodes", "2", "--requeue", "--", *RUN, r"folder='it\'s 100%j'")
    slurm.until("the job trains", lambda: trains(run))
    # It takes all of both nodes.
    urgent = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")
    slurm.until_done(slurm.tell("sbatch", "--parsable", *urgent))
    # A job that is queued again waits a while.
    whole = submit(place, "--nodes", "2", "--", *RUN, "folder=whole")
    slurm.until_done(job)
    assert slurm.job(job)["Restarts"] == "1"
    said = (run / f"slurm-{job}.out").read_text()
    assert f"job {job} goes back into the queue" in said
    assert "resumed from it's 100%j/checkpoints/step_" in said
    slurm.until_done(whole)
    assert slurm.job(whole)["NodeList"] == "n[1-2]"
    assert "run folder: whole" in (place / "whole" / f"slurm-{whole}.out").read_text()
    assert list(losses(run)) == list(range(1, STEPS + 1))
    assert losses(run) == losses(place / "whole")


def test_a_job_that_is_cancelled_saves_and_stays_out_of_the_queue(slurm: Cluster, place: Path):
    """Of one task, which starts its worker itself; Slurm signals every process."""
    job = submit(place, "--requeue", "--", *RUN, "steps=1000", "folder=run")
    slurm.until("the job trains", lambda: trains(place / "run"))
    slurm.tell("scancel", job)
    slurm.until("the job is gone", lambda: slurm.job(job)["JobState"] == "CANCELLED")
    last = list(losses(place / "run"))[-1]
    assert [path.name for path in (place / "run" / "checkpoints").iterdir()] == [f"step_{last:08d}"]
