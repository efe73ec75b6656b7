"""What tests of sweeps share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweep.scene import Trainer


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Trainer:
    return Trainer(monkeypatch, tmp_path)
