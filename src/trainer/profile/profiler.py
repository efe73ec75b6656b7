"""torch.profiler over some steps, on a clock that the host's is known in."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import torch

from trainer.overlap.kernels import Anchor, find_anchor

# The name of the span that ties the profiler's clock to the host's.
CLOCK = "overlap-trainer: clock"


class Profiler:
    """One recording. It warms up from when it is made; all calls come from the training thread."""

    def __init__(self, device: Literal["cpu", "cuda"]) -> None:
        # Else Kineto tells stderr of what it does.
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if device == "cuda":
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        # By itself it records this thread alone, and the collectives of a compressing hook are on the courier's.
        everywhere = torch.profiler._ExperimentalConfig(profile_all_threads=True)
        self._profile = torch.profiler.profile(activities=kinds, experimental_config=everywhere)
        self._profile.prepare_trace()
        self._recording = False
        self._moment = 0.0

    def start(self) -> None:
        self._profile.start_trace()
        self._recording = True
        with torch.profiler.record_function(CLOCK):
            self._moment = time.perf_counter()

    def stop(self) -> None:
        """Record no more. May be called again."""
        if self._recording:
            self._recording = False
            self._profile.stop_trace()

    def trace(self, folder: Path) -> tuple[dict[str, Any], Anchor]:
        """What was recorded, in Chrome's format; `folder` takes it for a moment."""
        with tempfile.TemporaryDirectory(dir=folder) as passing:
            path = Path(passing) / "trace.json"
            self._profile.export_chrome_trace(str(path))
            trace = json.loads(path.read_text())
        return trace, find_anchor(trace["traceEvents"], CLOCK, self._moment)
