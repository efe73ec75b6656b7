"""A run's result on the disk, and beside a full one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.sweep.scene import result
from trainer.sweep.result import keep, read, read_all, swept


def test_results_are_read_in_the_order_of_their_numbers(tmp_path):
    for name in ("10", "9", "lr=1"):
        keep(tmp_path / name, result(f"seed={name}", value=1.0))
    assert list(read_all(tmp_path)) == ["9", "10", "lr=1"]
    assert read(tmp_path / "9") == result("seed=9", value=1.0)
    assert [entry.name for entry in (tmp_path / "9").iterdir()] == ["result.json"]


@pytest.mark.parametrize("text", ["", '{"status": "done"', "[]", '{"status": "won"}'])
def test_what_is_no_result_is_none(tmp_path, text):
    (tmp_path / "result.json").write_text(text)
    assert read(tmp_path) is None


def test_a_full_disk_keeps_the_old_file_and_what_is_known_in_memory(tmp_path, monkeypatch, caplog):
    keep(tmp_path / "0", result(status="running"))
    write_text = Path.write_text

    def full(path, text, *rest, **more):
        write_text(path, text[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    # Done, but whether all its metrics were written nobody knows.
    assert keep(tmp_path / "0", result(value=2.0)).status == "failed"
    keep(tmp_path / "1", result(status="refused", reason="no"))
    assert [(known.status, known.value, known.reason) for known in read_all(tmp_path).values()] == [
        ("failed", None, "its result could not be written (No space left on device)"),
        ("refused", None, "no"),
    ]
    assert f"sweep: {tmp_path / '0'}: its result could not be written (No space left on device)" in caplog.text
    monkeypatch.undo()
    assert '"running"' in (tmp_path / "0" / "result.json").read_text()
    keep(tmp_path / "0", result(value=3.0))
    keep(tmp_path / "1", result(value=1.0))
    assert [known.value for known in read_all(tmp_path).values()] == [3.0, 1.0]
    assert not list(tmp_path.glob("*/result.json.*"))


def test_swept_keys_are_those_whose_values_differ():
    runs = (["model=mlp", "comm=fp16", "+x.y=1"], ["model=mlp", "comm=topk", "+x.y=1"], ["model=mlp", "comm=topk"])
    assert swept(runs) == ["comm", "x.y"]
