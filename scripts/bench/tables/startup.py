"""From Enter to the first step: `python train.py` against the hand-written script under torchrun."""

from __future__ import annotations

import sys
import tempfile

from scripts.bench import first_step
from scripts.bench.table import Table, times_table
from scripts.bench.worker import Measured

CONSOLE = "train.py 'logger=[console]'"
HAND = "torchrun hand_written.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
TRAIN = [sys.executable, "train.py", "log.every=1", "checkpoint.every=null", "launch.processes=2"]
ROUNDS, QUICK_ROUNDS = 10, 1


def measure(quick: bool) -> list[Table]:
    """Raises BenchError."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        train = [*TRAIN, f"folder={folder}"]
        commands = {
            HAND: [*TORCHRUN, "scripts/bench/hand_written.py"],
            "train.py": train,
            CONSOLE: [*train, "logger=[console]"],
        }
        if quick:
            del commands[CONSOLE]
        seconds = first_step.interleave(commands, rounds)
    setting = f"ResNet-18 on digits, 2 processes; {rounds} rounds of whole processes."
    return [times_table("From Enter to the first step", setting, "time", Measured(seconds, {}), [HAND])]
