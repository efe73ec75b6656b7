"""Text becomes pieces of bytes, each with the bytes that follow."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trainer.data.text import Text
from trainer.sample import Sample
from trainer.spec import ConfigError


@pytest.fixture
def every_byte(tmp_path: Path) -> Path:
    """A file that holds every byte four times, in no encoding."""
    path = tmp_path / "bytes.bin"
    path.write_bytes(bytes(range(256)) * 4)
    return path


def test_pieces_follow_each_other_through_the_whole_file(every_byte: Path):
    split = Text(path=every_byte, length=10).build(0)
    content = every_byte.read_bytes()
    for part, expected in ((split.train, content[:921]), (split.evaluation, content[921:])):
        read = b"".join(bytes(part[index][0].tolist()) for index in range(len(part)))
        assert expected.startswith(read)
        assert 0 < len(expected) - len(read) <= 10


def test_the_target_is_the_byte_that_follows(every_byte: Path):
    train = Text(path=every_byte, length=10).build(0).train
    for index in range(len(train)):
        inputs, targets = train[index]
        assert inputs.dtype == targets.dtype == torch.int64
        assert inputs.shape == targets.shape == (10,)
        assert torch.equal((inputs + 1) % 256, targets)


def test_count_and_sample_say_what_is_built(every_byte: Path):
    data = Text(path=every_byte, length=10)
    assert data.count() == len(data.build(0).train) == 92
    assert data.sample() == Sample("tokens", (10,), 256)


def test_without_a_path_there_is_the_text_that_every_python_carries():
    split = Text(length=64).build(0)
    assert len(split.train) > 5000
    assert len(split.evaluation) > 500
    words = bytes(split.train[0][0].tolist()).decode()
    assert "assert" in words


def test_a_missing_file_is_refused(make_run, tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        make_run("model=gpt", "data=text", f"data.path={tmp_path}/book.txt")
    assert str(caught.value) == f"data.path: there is no file {tmp_path}/book.txt; set data.path=<text file>"


def test_a_short_file_is_refused(make_run, tmp_path: Path):
    path = tmp_path / "note.txt"
    path.write_text("x" * 1279)
    with pytest.raises(ConfigError) as caught:
        make_run("model=gpt", "data=text", f"data.path={path}")
    assert str(caught.value) == (
        f"data.path: {path} has 1279 bytes, which is short for samples of 64; give a longer text or a smaller"
        " data.length"
    )


def test_the_shortest_file_that_is_taken_has_something_to_evaluate(make_run, tmp_path: Path):
    path = tmp_path / "note.txt"
    path.write_text("x" * 1280)
    data = make_run("model=gpt", "data=text", f"data.path={path}", "batch.size=2").data
    assert len(data.build(0).evaluation) > 0
