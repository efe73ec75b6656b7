"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.whole_file import write_whole


def test_a_file_is_replaced_whole(tmp_path):
    write_whole(tmp_path / "file", "first")
    write_whole(tmp_path / "file", "second")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "second")]


def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    write_whole(tmp_path / "file", "first")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_whole(tmp_path / "file", "second")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "first")]
