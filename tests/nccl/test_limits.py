"""What a container may have been given too little of."""

from __future__ import annotations

import math
import os

import pytest

from tests.nccl import trees
from trainer.nccl.limits import locked_memory, shared_memory, spell

TITLE = "Limit                     Soft Limit           Hard Limit           Units     \n"


@pytest.mark.parametrize(("word", "size"), [("unlimited", math.inf), ("67108864", 64 * 2**20)])
def test_the_soft_limit_counts(tmp_path, word, size):
    trees.write(tmp_path / "self" / "limits", f"{TITLE}Max locked memory         {word}   unlimited   bytes     \n")
    assert locked_memory(tmp_path) == size


def test_a_system_that_does_not_say_is_not_guessed(tmp_path):
    assert locked_memory(tmp_path) is None
    trees.write(tmp_path / "self" / "limits", TITLE)
    assert locked_memory(tmp_path) is None
    assert shared_memory(tmp_path) is None


def test_shared_memory_is_as_large_as_its_file_system(tmp_path):
    (tmp_path / "shm").mkdir()
    whole = os.statvfs(tmp_path)
    assert shared_memory(tmp_path) == whole.f_blocks * whole.f_frsize


@pytest.mark.parametrize(
    ("size", "words"), [(64 * 2**20, "64 MiB"), (3 * 2**29, "1.5 GiB"), (math.inf, "unlimited"), (4, "4 B")]
)
def test_sizes_are_spelled(size, words):
    assert spell(size) == words
