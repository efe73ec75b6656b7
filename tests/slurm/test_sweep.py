"""A sweep whose runs are jobs of a real Slurm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import SMALL, TRAIN
from tests.slurm.cluster import Cluster
from trainer.sweep.result import read_all

pytest.importorskip("submitit", reason="submitit is not installed: pip install -e '.[slurm]'")
# What four jobs need on a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(300)


def test_the_runs_of_a_sweep_are_jobs_and_are_ranked_at_its_end(slurm: Cluster, tmp_path: Path):
    sweep = ("-m", "hydra/launcher=submitit_slurm", "optimizer.lr=0.1,0.01", "batch.size=16,32", "name=swept")
    command = [sys.executable, TRAIN, *sweep, *SMALL, "parallel=none", "steps=2", "sweep.objective=train/loss"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs" / "swept").iterdir()
    results = read_all(folder)
    assert list(results) == ["0", "1", "2", "3"]
    assert {result.status for result in results.values()} == {"done"}
    assert f"{folder.relative_to(tmp_path)}: 4 runs, 4 done" in done.stdout
    ranks = [line.split(",")[:2] for line in (folder / "sweep.csv").read_text().splitlines()[1:]]
    by_loss = sorted(results, key=lambda job: results[job].value)
    assert ranks == [[str(place), job] for place, job in enumerate(by_loss, 1)]
    # An array of jobs, each with what it said.
    assert len(list(folder.glob(".submitit/*_[0-3]/*.out"))) == 4
