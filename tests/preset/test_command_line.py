"""What `preset` prints, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT
from trainer.preset.command_line import main


def test_save_prints_the_file_and_the_command_that_uses_it(make_run, record, tmp_path: Path, capsys):
    run, to = record(make_run("experiment=smoke")), tmp_path / "ours"
    assert main(["save", str(run), "team/lab", "--to", str(to), "--when", "At night."]) == 0
    assert capsys.readouterr().out == (
        f"{to}/experiment/team/lab.yaml\nTRAINER_PRESETS={to} python train.py experiment=team/lab\n"
    )
    assert main(["check", str(to)]) == 0
    assert capsys.readouterr().out == "1 preset, 0 wrong\n"


def test_diff_ends_as_diff_does(share, capsys):
    share(ib="defaults: [/experiment/smoke, _self_]\nsteps: 9")
    assert main(["diff", "smoke", "team/ib"]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["option", "smoke", "team/ib"], ["steps", "20", "9"]]
    assert main(["diff", "smoke", "smoke"]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_check_lists_what_is_wrong_and_ends_with_2(share, capsys):
    folder = share(fine="steps: 5", typo="stepz: 5", torn="steps: [")
    assert main(["check", str(folder)]) == 2
    assert capsys.readouterr().out == (
        f"{folder}/experiment/team/torn.yaml: line 3 is no YAML (expected the node content, but found '<stream end>');"
        " write option: value\n"
        f"{folder}/experiment/team/typo.yaml: stepz: unknown option; did you mean 'steps'?\n"
        "3 presets, 2 wrong\n"
    )


def test_list_says_where_each_comes_from_and_when_to_use_it(share, capsys):
    folder = share(ib="# Over InfiniBand.\nsteps: 5")
    assert main(["list"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "preset from when to use it"
    assert "smoke conf The shortest run that goes through everything: a quick look at a new machine or after a" in (
        next(line for line in lines if line.startswith("smoke"))
    )
    assert lines[-1] == f"team/ib {folder} Over InfiniBand."


def test_a_preset_that_does_not_compose_is_told_in_a_line(share, capsys):
    share(group="defaults: [override /update: strict]", value="steps: ${nothing}")
    assert main(["diff", "team/group", "smoke"]) == 2
    assert capsys.readouterr().err == "experiment/team/group: there is no group 'update'; did you mean 'data'?\n"
    assert main(["diff", "team/value", "smoke"]) == 2
    assert capsys.readouterr().err == "steps: Interpolation key 'nothing' not found; set steps=<value>\n"


def test_save_tells_what_this_machine_lacks(make_run, record, tmp_path: Path, capsys):
    run = record(make_run("experiment=smoke"))
    (run / "run.yaml").write_text((run / "run.yaml").read_text().replace("nesterov:", "nestorev:"))
    assert main(["save", str(run), "lab", "--to", str(tmp_path)]) == 0
    assert capsys.readouterr().err == (
        "As it stands it does not run here: optimizer.nestorev: unknown option; did you mean 'nesterov'?\n"
    )


def test_what_cannot_be_done_is_one_line_and_code_2(share, capsys, tmp_path: Path):
    share(smoke="steps: 5")
    assert main(["diff", "smoke", "none"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "none: is neither a run's folder nor a preset; did you mean 'one_gpu'?\n"


def test_the_script_starts_it(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "preset"), "save", str(tmp_path), "lab"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{tmp_path}: there is no run.yaml of a run in it;")
