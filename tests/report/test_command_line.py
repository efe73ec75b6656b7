"""scripts/report, as it is typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainer.report.command_line import main

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "report"


def test_it_writes_the_page_and_prints_where(tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text('{"step": 10, "train/loss": 1.0}\n')
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.html'}\n"
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_folder_is_refused_in_one_line(name, tmp_path):
    (tmp_path / "file").touch()
    done = subprocess.run([sys.executable, SCRIPT, tmp_path / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"report: {tmp_path / name} is no folder; name one that a run printed at its end\n"


def test_a_folder_that_cannot_be_written_to_is_refused_in_one_line(tmp_path, capsys, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("trainer.report.page.write", refuse)
    assert main([str(tmp_path)]) == 2
    assert "cannot be written to (read-only)" in capsys.readouterr().err
