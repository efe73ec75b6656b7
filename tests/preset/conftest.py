"""A folder of shared presets, and runs to make presets of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer.launch import describe
from trainer.preset import compose
from trainer.preset.sources import VARIABLE
from trainer.run import Run

HEADER = {
    "step": 0,
    "version": 1,
    "hosts": ["n0", "n1"],
    "links_gbit": [None, None],
    "devices": ["x86_64 CPU", "x86_64 CPU"],
    "software": {"torch": "2.14.1"},
    "date": "2026-11-30",
}
METRICS = {"overlap/comm_ms": 70.0, "overlap/hidden_ratio": 0.75, "speed/step_ms": 200.0, "speed/step_ms/worst": 210.0}


@pytest.fixture(autouse=True)
def _nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`share(ok="defaults: …")` writes presets into the folder `team` of a source that is in TRAINER_PRESETS; it."""
    compose.register()

    def write(**presets: str) -> Path:
        source = tmp_path / "shared"
        folder = source / "experiment" / "team"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in presets.items():
            (folder / f"{name}.yaml").write_text(f"# @package _global_\n{text}\n")
        monkeypatch.setenv(VARIABLE, str(source))
        return source

    return write


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """The folder of a run as it would have left it, `metrics` at step 20 and then again at step 40."""

    def write(run: Run, header: dict = HEADER, metrics: dict = METRICS, name: str = "run") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "run.yaml").write_text(describe(run))
        (folder / "ranks.jsonl").write_text(json.dumps(header) + "\n")
        lines = [{"step": step, **metrics} for step in (20, 40)] + [{"step": 40, "eval/accuracy": 0.9861}]
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return folder

    return write
