"""Sweeps that never were, made of plain values, and train.py without workers."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer.run import Run
from trainer.sweep.options import Sweep
from trainer.sweep.result import Result

TRAIN = str(Path(__file__).parent.parent.parent / "train.py")
SMALL = ("model=mlp", "steps=4", "logger=[jsonl]")


def result(*overrides: str, status: Any = "done", value: float | None = None, **parts: Any) -> Result:
    options = parts.pop("options", Sweep())
    return Result(overrides=list(overrides), options=options, status=status, value=value, **parts)


def write_metrics(folder: Path, *lines: dict[str, float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


class Trainer:
    """train.py with `launch` replaced: what it was asked to run, and what it does instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.runs: list[Run] = []
        self.does: Callable[[Run], None] = lambda run: write_metrics(
            run.folder, {"step": 4, "speed/samples_per_s": float(run.batch.size), "train/loss": 1.0}
        )
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setattr("trainer.launch.launch", self._launch)
        monkeypatch.setattr("trainer.nursery.open_early", lambda: None)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
            monkeypatch.delenv(name, raising=False)

    def __call__(self, *arguments: str) -> int:
        """The exit code of `python train.py arguments`."""
        self.runs.clear()
        self._monkeypatch.delenv("TRAINER_STARTED", raising=False)
        self._monkeypatch.setattr(sys, "argv", [TRAIN, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(TRAIN, run_name="__main__")
        return int(ended.value.code or 0)

    def _launch(self, run: Run) -> None:
        self.runs.append(run)
        self.does(run)


def only_sweep(folder: Path) -> Path:
    (sweep,) = (folder / "runs").glob("*/*")
    return sweep
