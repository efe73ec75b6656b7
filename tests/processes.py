"""Real runs of train.py, for tests that start, disturb and resume them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TRAIN = str(ROOT / "train.py")
# A model so small that starting the processes is nearly all of the time.
SMALL = ("experiment=smoke", "logger=[console,jsonl]", "log.report=false")
# A model whose steps take a while and no core, where something is to happen between two of them.
SLOW = ("model=custom", "model.factory=slow:Net")
SLOW_MODEL = """
import time, torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(64, 10)

    def forward(self, x):
        time.sleep(0.06 if self.training else 0)
        return super().forward(x.flatten(1))
"""


def path_with_slow_model(folder: Path) -> str:
    """PYTHONPATH for a run with SLOW, whose model is written into `folder`."""
    (folder / "slow.py").write_text(SLOW_MODEL)
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextlib.contextmanager
def started(folder: Path, *arguments: str, command: tuple[str, ...] = (sys.executable,)) -> Iterator[subprocess.Popen]:
    """A running train.py in a session of its own, which is gone when the block ends."""
    process = subprocess.Popen(
        [*command, TRAIN, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def run(folder: Path, *arguments: str, command: tuple[str, ...] = (sys.executable,)) -> tuple[int, str]:
    with started(folder, *arguments, command=command) as process:
        output, _ = process.communicate(timeout=100)
        return process.returncode, output


def read_until(process: subprocess.Popen, wanted: Callable[[str], bool]) -> str:
    seen = ""
    for line in process.stdout:
        seen += line
        if wanted(line):
            return seen
    raise AssertionError(f"the run ended before it said what was waited for:\n{seen}")


def losses(folder: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["train/loss"] for line in lines if "train/loss" in line}


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").glob("*/*")
    return run


def workers_of(launcher: int) -> list[int]:
    """Process ids of the workers, by rank: they are forked from the launcher's child that has everything loaded."""
    found = [worker for child in _children(launcher) for worker in _children(child)]
    assert len(found) >= 2, found
    return sorted(found)


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def alive_in_session(session: int) -> list[str]:
    listed = subprocess.run(["ps", "-o", "pid=,stat=,args=", "-s", str(session)], capture_output=True, text=True).stdout
    # A process in brackets has given its memory back already, and one that is Z waits to be read: both are ending.
    return [line for line in listed.splitlines() if line.split()[1][0] != "Z" and line.split()[2][0] != "["]
