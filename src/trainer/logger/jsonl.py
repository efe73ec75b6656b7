"""One line of JSON for each set of metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainer.logger.base import Logger, Metrics, Writer


class Jsonl(Logger):
    """`metrics.jsonl` in the run's folder."""

    def build(self, folder: Path, config: dict[str, Any], total_steps: int, first_step: int) -> Writer:
        return _Jsonl(folder / "metrics.jsonl", first_step)


class _Jsonl:
    def __init__(self, path: Path, first_step: int) -> None:
        # After a restart the steps since the checkpoint come again, and a killed worker may have left half a line.
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= first_step]
        path.write_text("".join(kept))
        self._stream = open(path, "a", buffering=1)  # noqa: SIM115 - lives as long as the writer

    def write(self, step: int, metrics: Metrics) -> None:
        self._stream.write(json.dumps({"step": step, **metrics}) + "\n")

    def close(self) -> None:
        self._stream.close()


def _whole_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
