"""A file of one JSON object a line, written step by step, that outlives kills and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class JsonLines:
    """Appends objects that have a `step`; what an earlier start wrote after `first_step` is dropped.

    After a restart the steps since the checkpoint come again, and a killed worker may have left half a line.
    """

    def __init__(self, path: Path, first_step: int) -> None:
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= first_step]
        path.write_text("".join(kept))
        self.fresh = not kept
        """whether nothing was written before `first_step`"""
        self._stream = open(path, "a", buffering=1)  # noqa: SIM115 - lives as long as the writer

    def write(self, entry: dict[str, Any]) -> None:
        self._stream.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        self._stream.close()


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
