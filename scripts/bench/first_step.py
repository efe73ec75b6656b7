"""From Enter to the first step: whole processes, started in turns."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence

from scripts.bench.lab import ROOT, BenchError

# Seconds that a command has to print its first step, and then to end.
FIRST_S, END_S = 120, 60


def interleave(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[float]]:
    """Seconds until each command printed a line that begins with `step 1`, in each round. Raises BenchError."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            seconds[name].append(_until_first_step(name, command))
    return seconds


def _until_first_step(name: str, command: Sequence[str]) -> float:
    with tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        alarm = threading.Timer(FIRST_S, os.killpg, (process.pid, signal.SIGKILL))
        alarm.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("step 1"):
                    return time.perf_counter() - began
        finally:
            alarm.cancel()
            _end(process)
        errors.seek(0)
        raise BenchError(f"{name}: `{' '.join(command)}` ended without a step: {errors.read()[-2000:]}")


def _end(process: subprocess.Popen[str]) -> None:
    """Tell it to stop, read what it still says so that it can, and leave nothing of it behind."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
