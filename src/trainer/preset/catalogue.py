"""What a preset's file says of itself, for who chooses one."""

from __future__ import annotations

from pathlib import Path


def when(path: Path) -> str:
    """When to use it: the first line of the comment at the top of its file; empty if there is none."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.lstrip("# ").strip()
        if not line.startswith("#"):
            return ""
        if text and not text.startswith("@package"):
            return text
    return ""
