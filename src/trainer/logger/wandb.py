"""Weights & Biases, in a process of its own."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from trainer.logger.base import Logger, Metrics, Picture, Writer

log = logging.getLogger(__name__)


class Wandb(Logger):
    """One W&B run, with the configuration and all metrics."""

    mode: Literal["auto", "online", "offline"] = "auto"
    """auto is online where a key is found (WANDB_API_KEY or a netrc entry), else offline"""
    project: str = "overlap-trainer"
    """the W&B project"""
    entity: str | None = None
    """the W&B user or team; null is the key's own"""
    group: str | None = None
    """the W&B group that runs of one sweep share"""
    finish_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    """seconds that the end of the run waits for uploads"""

    def in_sweep(self, sweep: str) -> Wandb:
        """In the sweep's group, unless there is another."""
        return self if self.group else self.model_copy(update={"group": sweep})

    def build(self, folder: Path, config: dict[str, Any], total_steps: int, first_step: int) -> Writer:
        start = {
            "mode": self.mode,
            "finish_timeout_s": self.finish_timeout_s,
            "init": {
                "project": self.project,
                "entity": self.entity,
                "group": self.group,
                "name": f"{config['name']}/{folder.name}",
                # The folder decides, so that workers that were started again go on with the run they had.
                "id": uuid.uuid5(uuid.NAMESPACE_URL, str(folder.resolve())).hex[:12],
                "dir": str(folder),
                "config": config,
            },
        }
        return _Tracker(start, self.finish_timeout_s)


class _Tracker:
    """Feeds the process that talks to W&B. Whatever happens to that process, the training only ever fills a queue."""

    def __init__(self, start: dict[str, Any], finish_timeout_s: float) -> None:
        self.finish_timeout_s = finish_timeout_s
        self._warned = False
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lines.put(json.dumps(start))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trainer.logger.wandb_process"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A group of its own, away from the terminal's Ctrl-C, so that it can send what it has, and be ended whole.
            start_new_session=True,
        )
        self._feeder = threading.Thread(target=self._feed, name="wandb", daemon=True)
        self._listener = threading.Thread(target=self._listen, name="wandb", daemon=True)
        self._feeder.start()
        self._listener.start()

    def write(self, step: int, metrics: Metrics) -> None:
        self._lines.put(json.dumps({"step": step, "metrics": metrics}))

    def draw(self, picture: Picture) -> None:
        self._lines.put(json.dumps({"picture": picture._asdict() | {"path": str(picture.path)}}))

    def close(self) -> None:
        self._lines.put(None)
        try:
            code = self._process.wait(self.finish_timeout_s)
        except subprocess.TimeoutExpired:
            self._warn(f"not done after {self.finish_timeout_s:g} s, so it is ended")
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        else:
            self._feeder.join()
            self._listener.join(1)
            if code:
                self._warn("its process ended early")

    def _feed(self) -> None:
        assert self._process.stdin is not None
        try:
            while (line := self._lines.get()) is not None:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            self._process.stdin.close()
        except OSError:
            self._warn("its process ended early")

    def _listen(self) -> None:
        """Pass on what the process says, through the log, which does not tear a live line of progress."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            log.info("%s", line.rstrip())

    def _warn(self, reason: str) -> None:
        """Say, once, that W&B has not everything."""
        if not self._warned:
            self._warned = True
            log.warning("wandb: %s; all metrics are in metrics.jsonl", reason)
