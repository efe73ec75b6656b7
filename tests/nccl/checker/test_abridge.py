"""Of a file of nonsense a few lines are told, and how many more there are."""

from __future__ import annotations

import pytest

from trainer.nccl.checker import sources
from trainer.nccl.checker.abridge import abridged
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.sources import Value


def _told(values):
    return [one.line() for one in abridged(check(values, Context()), values)]


@pytest.mark.parametrize(("lines", "told"), [(9, 9), (10, 10), (11, 11), (500, 11)])
def test_beyond_ten_of_a_kind_the_rest_are_counted(tmp_path, lines, told):
    path = tmp_path / "binary"
    path.write_bytes(b"\x7f\x00\xff\n" * lines)
    found = _told(sources.read(str(path)))
    assert len(found) == told
    assert found[0].startswith(f"{path}:1: has no variable and '='")
    if lines > 10:
        assert found[-1] == (
            f"{path}: has {lines - 10} more of this kind; correct those above, and see whether it is the file that is"
            " meant"
        )


def test_each_rule_and_each_file_has_its_own_ten():
    def some(file, name):
        return {f"{name}_{number}": Value("1", file, file=file) for number in range(12)}

    found = _told(some("/a", "NCCL_NO") | some("/b", "NCCL_NEITHER") | some("/a", "TORCH_NCCL_NO"))
    assert [line for line in found if "more" in line and line.startswith("/a:")] == [
        "/a: has 14 more of this kind; correct those above, and see whether it is the file that is meant"
    ]
    assert sum("more of this kind" in line for line in found) == 2
    assert len(found) == 22


def test_nothing_of_an_environment_is_left_out():
    values = {f"NCCL_NO_{number}": Value("1", "environment") for number in range(30)}
    assert len(_told(values)) == 30


def test_errors_are_not_hidden_behind_warnings():
    values = {f"TORCH_NCCL_NO_{number}": Value("1", "/a", file="/a") for number in range(20)}
    values["NCCL_NO"] = Value("1", "/a", file="/a")
    first, *_, last = abridged(check(values, Context()), values)
    assert (first.variable, first.severity, last.severity) == ("NCCL_NO", "error", "warning")
