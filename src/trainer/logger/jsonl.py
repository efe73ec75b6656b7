"""One line of JSON for each set of metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainer.json_lines import JsonLines
from trainer.logger.base import Logger, Metrics, Picture, Writer


class Jsonl(Logger):
    """`metrics.jsonl` in the run's folder."""

    def build(self, folder: Path, config: dict[str, Any], total_steps: int, first_step: int) -> Writer:
        return _Jsonl(JsonLines(folder / "metrics.jsonl", first_step))


class _Jsonl:
    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def write(self, step: int, metrics: Metrics) -> None:
        self._lines.write({"step": step, **metrics})

    def draw(self, picture: Picture) -> None:
        """It has a file of its own already."""

    def close(self) -> None:
        self._lines.close()
