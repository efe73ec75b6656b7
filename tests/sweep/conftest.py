"""What tests of sweeps share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweep.scene import Trainer


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Trainer]:
    # Hydra sets the level of this process, which would be left to other tests.
    level = logging.root.level
    yield Trainer(monkeypatch, tmp_path)
    logging.root.setLevel(level)
