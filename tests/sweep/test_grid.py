"""What remains of a sweep, and whose it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sweep.scene import result
from trainer.spec import ConfigError
from trainer.sweep import grid
from trainer.sweep.grid import remaining

GRID = {str(number): ["model=mlp", f"seed={number}"] for number in range(5)}
RESULTS = {
    "0": result(*GRID["0"], value=1.0),
    "1": result(*GRID["1"], status="failed"),
    "2": result(*GRID["2"], status="running"),
    "3": result(*GRID["3"], status="refused"),
}


def test_all_but_what_is_done_remains_in_its_folders():
    rest = remaining([], GRID, RESULTS)
    assert list(rest.jobs) == ["1", "2", "3", "4"]
    assert rest.lines == ["1 of 5 runs are done; 4 are to do, of which 3 had begun"]


def test_the_same_grid_in_another_order_is_the_same():
    asked = [["seed=4", "launch.node_rank=1", "model=mlp"], ["seed=0", "model=mlp", "sweep.objective=eval/loss"]]
    rest = remaining(asked, GRID, RESULTS)
    assert rest.jobs == {"4": asked[0]}
    assert rest.lines[1:] == [
        "the grid asked for lacks 3 runs of this sweep, which are left as they are and ranked too: 1, 2, 3"
    ]


def test_new_runs_get_numbers_of_their_own():
    rest = remaining([["model=mlp", "seed=0"], ["model=mlp", "seed=7"], ["model=mlp", "seed=8"]], GRID, RESULTS)
    assert list(rest.jobs) == ["5", "6"]
    assert "2 of them are new to this sweep's grid: 5, 6" in rest.lines


def test_a_grid_of_which_nothing_is_known_is_refused_with_what_all_have():
    with pytest.raises(ConfigError) as caught:
        remaining([["seed=0"], ["seed=1"]], GRID, RESULTS)
    assert str(caught.value) == (
        "sweep.resume: none of the 2 runs asked for is one of the sweep's, all of which have: model=mlp; give what it"
        " was given, or sweep.resume alone"
    )


def test_a_grid_is_read_as_it_was_written(tmp_path):
    grid.write(tmp_path, GRID)
    assert grid.read(tmp_path) == GRID


def test_a_folder_without_a_grid_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"sweep.resume: .* holds no sweep; name one that a sweep printed at its end"):
        grid.read(tmp_path)
    (tmp_path / "grid.json").write_text("[1")
    with pytest.raises(ConfigError, match=r"grid.json cannot be read \(.*\); start a new sweep"):
        grid.read(tmp_path)


def test_a_sweep_that_runs_is_nobody_elses(tmp_path):
    claim = (
        "import sys, pathlib; from trainer.sweep import grid; grid.claim(pathlib.Path(sys.argv[1])); print('has it')"
    )
    code = f"{claim}; sys.stdout.flush(); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "has it\n"
        with pytest.raises(ConfigError, match="another process is running the sweep in"):
            grid.claim(tmp_path)
        holder.kill()
    grid.claim(tmp_path)
    grid.claim(tmp_path)
