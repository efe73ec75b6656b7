"""The terminal: a live line of progress, or plain lines where nobody watches."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console as Screen
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trainer.logger.base import Logger, Metrics, Picture, Writer

# The short names a person reads, in order, with the format of the value.
SHOWN = {
    "train/loss": ("loss", "{:.4f}"),
    "eval/loss": ("eval loss", "{:.4f}"),
    "eval/accuracy": ("accuracy", "{:.2%}"),
    "speed/samples_per_s": ("samples/s", "{:.0f}"),
    "speed/step_ms": ("step", "{:.1f} ms"),
    "overlap/hidden_ratio": ("hidden", "{:.0%}"),
    "overlap/bubble_share": ("bubble", "{:.0%}"),
}


class Console(Logger):
    """Progress on standard output."""

    def build(self, folder: Path, config: dict[str, Any], total_steps: int, first_step: int) -> Writer:
        if sys.stdout.isatty():
            return _Live(total_steps, first_step)
        return _Plain(total_steps, first_step)


def _words(metrics: Metrics) -> str:
    return "  ".join(f"{name} {form.format(metrics[key])}" for key, (name, form) in SHOWN.items() if key in metrics)


class _Live:
    """One bar that stays at the bottom; evaluations scroll past above it."""

    def __init__(self, total_steps: int, first_step: int) -> None:
        self._progress = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            TimeRemainingColumn(),
            console=Screen(),
        )
        self._task = self._progress.add_task("train", total=total_steps, completed=first_step, words="")
        self._progress.start()

    def write(self, step: int, metrics: Metrics) -> None:
        if "train/loss" in metrics:
            self._progress.update(self._task, completed=step, words=_words(metrics))
        elif words := _words(metrics):
            self._progress.console.print(f"step {step}  {words}", highlight=False)

    def draw(self, picture: Picture) -> None:
        """A terminal has no place for it."""

    def close(self) -> None:
        self._progress.stop()


class _Plain:
    """A line for each set of metrics, with the time left by the steps so far."""

    def __init__(self, total_steps: int, first_step: int) -> None:
        self.total_steps, self.first_step, self._began = total_steps, first_step, time.monotonic()

    def write(self, step: int, metrics: Metrics) -> None:
        if not (words := _words(metrics)):
            return
        line = f"step {step}/{self.total_steps}  {words}"
        if "train/loss" in metrics and step > self.first_step:
            left = (time.monotonic() - self._began) / (step - self.first_step) * (self.total_steps - step)
            line += f"  left {int(left) // 60}:{int(left) % 60:02d}"
        print(line, flush=True)

    def draw(self, picture: Picture) -> None:
        """A terminal has no place for it."""

    def close(self) -> None:
        """Lines need no end."""
