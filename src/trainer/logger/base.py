"""`logger`: where metrics are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from trainer.spec import Component

Metrics = dict[str, float]


class Picture(NamedTuple):
    name: str
    path: Path
    """a PNG"""
    columns: list[str]
    rows: list[list[Any]]


class Writer(Protocol):
    """A logger at work, on the one rank that writes. A writer that fails must not stop the training."""

    def write(self, step: int, metrics: Metrics) -> None:
        """Metrics, under the names of docs/metrics.md, after `step` steps."""

    def draw(self, picture: Picture) -> None:
        """A picture of the run, and the numbers in it; a logger that has no place for it leaves it."""

    def close(self) -> None:
        """Nothing more will come."""


class Logger(Component):
    """A place to write metrics to."""

    def build(self, folder: Path, config: dict[str, Any], total_steps: int, first_step: int) -> Writer:
        """A writer for the run in `folder`, whose resolved configuration is `config`, from `first_step` on."""
        raise NotImplementedError

    def in_sweep(self, sweep: str) -> Logger:
        """The logger of one of the runs of the sweep of this name."""
        return self
