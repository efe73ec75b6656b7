"""What is said and written when a run has ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import SMALL, only_run, run
from trainer.conclusion import conclude
from trainer.logger.base import Picture


class _Writer:
    def __init__(self) -> None:
        self.pictures: list[Picture] = []

    def write(self, step: int, metrics: dict) -> None:
        raise AssertionError("nothing is measured any more")

    def draw(self, picture: Picture) -> None:
        self.pictures.append(picture)

    def close(self) -> None:
        raise AssertionError("others close it")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sums = {"step": 0.1, "forward": 0.03, "backward": 0.06, "comm": 0.05, "exposed": 0.01, "bytes": 1e6}
    timeline = [[["forward", "", 0.0, 30.0, 0, 0], ["comm", "bucket 0", 20.0, 70.0, 1e6, 1e6]]] * 2
    window = {"step": 10, "steps": 10, "ranks": [sums, sums], "timeline": timeline}
    header = {"step": 0, "version": 1, "hosts": ["a", "b"], "links_gbit": [None, None]}
    (tmp_path / "ranks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (header, window)))
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 10, "train/loss": 1.0}) + "\n")
    (tmp_path / "run.yaml").write_text("name: digits\n")
    return tmp_path


def test_the_page_is_written_and_the_timeline_is_given_to_the_loggers(folder: Path):
    writer = _Writer()
    assert f"report: {folder / 'report.html'}" in conclude(folder, True, [writer])
    (picture,) = writer.pictures
    assert (picture.name, picture.path) == ("timeline", folder / "timeline.png")
    assert picture.path.read_bytes().startswith(b"\x89PNG")
    assert sum(row[1] == "comm" for row in picture.rows) == 2
    assert all(len(row) == len(picture.columns) for row in picture.rows)
    assert "<html" in (folder / "report.html").read_text()


def test_without_a_report_only_the_doctor_speaks(folder: Path):
    writer = _Writer()
    assert not [line for line in conclude(folder, False, [writer]) if not line.startswith("doctor: ")]
    assert writer.pictures == []
    assert not (folder / "report.html").exists()


def test_what_fails_at_the_end_is_told_and_harms_nothing(folder: Path):
    (folder / "report.html").mkdir()
    (line,) = [line for line in conclude(folder, True, []) if line.startswith("report: ")]
    assert line.startswith("report: failed with ")
    assert line.endswith(f"; scripts/report {folder} tries again")


def test_a_run_ends_with_its_report(tmp_path: Path):
    code, output = run(tmp_path, *SMALL, "log.report=true", "logger=[jsonl]")
    assert code == 0, output
    report = only_run(tmp_path) / "report.html"
    assert f"report: {report.relative_to(tmp_path)}" in output
    assert report.exists()
