"""`logger`: where metrics are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from trainer.spec import Component

Metrics = dict[str, float]


class Writer(Protocol):
    """A logger at work, on the one rank that writes. A writer that fails must not stop the training."""

    def write(self, step: int, metrics: Metrics) -> None:
        """Metrics, under the names of docs/metrics.md, after `step` steps."""

    def close(self) -> None:
        """Nothing more will come."""


class Logger(Component):
    """A place to write metrics to."""

    def build(self, folder: Path, config: dict[str, Any], total_steps: int, first_step: int) -> Writer:
        """A writer for the run in `folder`, whose resolved configuration is `config`, from `first_step` on."""
        raise NotImplementedError
