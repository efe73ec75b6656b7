"""scripts/sweep, as it is typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.sweep.scene import result, write_metrics
from trainer.sweep.command_line import main
from trainer.sweep.result import keep

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "sweep"


def sweep(tmp_path):
    for at, accuracy in enumerate((0.9, 0.95)):
        run = tmp_path / str(at)
        write_metrics(
            run,
            {"step": 10, "speed/step_ms": 100.0 + at},
            {"step": 10, "eval/accuracy": accuracy, "mine/score": 1.0 + at},
        )
        keep(run, result(f"seed={at}", value=1.0 + at))
    return tmp_path


def test_a_folder_is_ranked_again_by_another_objective(tmp_path, capsys):
    folder = str(sweep(tmp_path))
    assert main([folder]) == 0
    assert (tmp_path / "sweep.csv").read_text().splitlines()[1].startswith("1,1,1,2.0,")
    assert main([folder, "--objective", "speed/step_ms"]) == 0
    assert (tmp_path / "sweep.csv").read_text().splitlines()[1].startswith("1,0,0,100.0,")
    assert main([folder, "--objective", "eval/accuracy", "--target", "0.92"]) == 0
    rows = (tmp_path / "sweep.csv").read_text().splitlines()
    assert rows[1].startswith("1,1,1,1.01,")
    assert "eval/accuracy came to 0.9 and not to 0.92" in rows[2]
    assert "seconds until eval/accuracy is 0.92" in (tmp_path / "sweep.html").read_text()
    assert str(tmp_path / "sweep.html") in capsys.readouterr().out


def test_an_objective_needs_a_direction_that_is_known(tmp_path, capsys):
    folder = str(sweep(tmp_path))
    assert main([folder, "--objective", "mine/score"]) == 2
    assert capsys.readouterr().err.startswith("sweep.direction: whether more or less of mine/score is better")
    assert main([folder, "--objective", "mine/score", "--direction", "min"]) == 0


def test_a_folder_without_results_is_refused_in_one_line(tmp_path):
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"sweep: {tmp_path} holds no results of a sweep; name the folder that a sweep printed\n"
