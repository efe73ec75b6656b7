"""What a preset's file says of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.preset.catalogue import when


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# @package _global_\n# One GPU.\n# More of it.\nsteps: 5\n", "One GPU."),
        ("#\n# Alone.\n", "Alone."),
        ("# @package _global_\nsteps: 5  # five\n# too late\n", ""),
        ("", ""),
    ],
)
def test_the_first_line_of_the_comment_says_when_to_use_it(text: str, line: str, tmp_path: Path):
    path = tmp_path / "preset.yaml"
    path.write_text(text)
    assert when(path) == line
