"""Real sweeps, disturbed."""

from __future__ import annotations

import csv
import re
import signal
import sys

import pytest

from tests.processes import SMALL, alive_in_session, read_until, started
from tests.sweep.scene import only_sweep
from trainer.sweep.result import read_all

# Several starts each.
pytestmark = pytest.mark.timeout(240)
ENDLESS = (*SMALL, "steps=1000000", "checkpoint.every=1000000", "evaluate.every=null")


def test_ctrl_c_saves_the_run_ends_the_sweep_and_it_goes_on_from_there(tmp_path):
    with started(tmp_path, "-m", *ENDLESS, "comm=allreduce,fp16") as process:
        read_until(process, lambda line: line.startswith("step "))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 130, output
        assert "Traceback" not in output
        assert not alive_in_session(process.pid)
    sweep = only_sweep(tmp_path)
    (checkpoint,) = (sweep / "0" / "checkpoints").iterdir()
    assert not (sweep / "1").exists()
    (row,) = csv.DictReader((sweep / "sweep.csv").read_text().splitlines())
    assert (row["status"], row["reason"]) == ("stopped", "stopped by SIGINT")
    assert f"go on with python train.py -m sweep.resume={sweep.relative_to(tmp_path)}" in output

    with started(tmp_path, "-m", f"sweep.resume={sweep.relative_to(tmp_path)}") as process:
        seen = read_until(process, lambda line: line.startswith("step "))
        assert "sweep: 0 of 2 runs are done; 2 are to do, of which 1 had begun" in seen
        assert int(re.search(r"^step (\d+)/", seen, re.M)[1]) > int(checkpoint.name.removeprefix("step_"))
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 143, output


def test_two_sweeps_at_once_in_one_folder_do_not_disturb_each_other(tmp_path):
    arguments = ("-m", *SMALL, "steps=4", "log.every=1", "seed=1,2")
    with started(tmp_path, *arguments) as first, started(tmp_path, *arguments) as second:
        for process in (first, second):
            output, _ = process.communicate(timeout=110)
            assert process.returncode == 0, output
    sweeps = list((tmp_path / "runs" / "smoke").iterdir())
    assert len(sweeps) == 2
    for sweep in sweeps:
        results = read_all(sweep)
        assert [result.status for result in results.values()] == ["done", "done"]
        assert {entry.name for entry in sweep.iterdir()} == {
            *("0", "1", "grid.json", "multirun.yaml", "sweep.csv", "sweep.html")
        }


def test_torchrun_goes_through_the_grid_in_step(tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    arguments = ("-m", *SMALL, "steps=4", "log.every=1", "batch.size=32,63,64")
    with started(tmp_path, *arguments, command=torchrun) as process:
        output, _ = process.communicate(timeout=110)
        assert process.returncode != 0  # one of them is refused
    results = read_all(only_sweep(tmp_path))
    assert [result.status for result in results.values()] == ["done", "refused", "done"], output
    assert output.count("sweep: run 3 of 3, 2: done in") == 1
