"""What `doctor` prints, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.doctor.scene import Queue, config, over
from trainer.doctor.command_line import main

BAD = over(
    Queue((200, 600), start_ms=0.5, mb_per_s=117),
    [(97.5, 600)],
    config=config(parallel__data__bucket_cap_mb=200),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    header = {"step": 0, "version": 1, "hosts": ["a", "b"], "links_gbit": [None, None]}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(BAD.config))
    (tmp_path / "metrics.jsonl").write_text('{"step": 10, "train/loss": 1.0}\n')
    lines = [json.dumps(header), *(window.model_dump_json() for window in BAD.windows)]
    (tmp_path / "ranks.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_findings_are_numbered_and_their_advice_stands_alone(folder: Path, capsys: pytest.CaptureFixture):
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "2 ranks on 2 hosts, 1,484 ms a step, 0 % of 874 ms of communication hidden" in " ".join(printed.split())
    assert "1. comm=onebit would save 50 % of the step  saves about 740 ms a step\n" in printed
    assert "\n   try: parallel.data.bucket_cap_mb=5\n" in printed
    assert "Missing" not in printed


def test_what_the_folder_lacks_is_told_and_the_rest_is_judged(folder: Path, capsys: pytest.CaptureFixture):
    (folder / "metrics.jsonl").unlink()
    windows = [window.model_copy(update={"timeline": None}).model_dump_json() for window in BAD.windows]
    header = (folder / "ranks.jsonl").read_text().splitlines()[0]
    (folder / "ranks.jsonl").write_text("\n".join([header, *windows]))
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "1. Nothing overlaps\n" in printed
    assert "Missing: metrics.jsonl is missing.\n" in printed
    words = " ".join(printed.split())
    assert "Missing: No step was recorded span by span: bucket sizes, hooks and the network are not judged." in words


def test_an_empty_folder_leaves_nothing_to_judge(tmp_path: Path, capsys: pytest.CaptureFixture):
    assert main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "There is nothing to judge.\n" in printed
    assert printed.count("Missing: ") == 3


def test_a_folder_that_is_not_there_is_one_line_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture):
    assert main([str(tmp_path / "absent")]) == 2
    error = capsys.readouterr().err
    assert error == f"doctor: there is no folder {tmp_path / 'absent'}; a run prints its own when it ends\n"


def test_the_script_starts_it(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "doctor"), str(tmp_path / "absent")], capture_output=True
    )
    assert done.returncode == 2
    assert done.stdout == b""
