"""Measure a case: on a lab of its own that scripts/netlab makes and removes, or on loopback."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.bench.case import Case
from scripts.bench.task import compose_run
from scripts.bench.worker import Measured

ROOT = Path(__file__).resolve().parents[2]
# One thread a rank in every framework, also in the threads that they start; and nobody's greetings.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"}


class BenchError(Exception):
    """A case could not be measured."""


def measure(case: Case) -> Measured:
    """All variants' times. Raises ConfigError, or BenchError when what went wrong stands on the terminal."""
    check(case)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "case").write_bytes(pickle.dumps(case))
        command = [sys.executable, "-m", "scripts.bench.worker", name]
        if case.rate is not None:
            lab = ["--name", f"bench-{os.getpid()}", "--hosts", str(case.hosts), "--rate", case.rate]
            command = [sys.executable, str(ROOT / "scripts" / "netlab"), *lab, "run", "--", *command]
        print(f"measuring {case.title}, {case.network} …", file=sys.stderr)
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | ENVIRONMENT, stdout=sys.stderr)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            # It was interrupted as well, and has a lab to remove.
            process.wait()
            raise
        if code:
            raise BenchError(f"{case.title}: ended with code {code}; the lines above say why")
        return Measured(*json.loads((folder / "result").read_text()))


def check(case: Case) -> None:
    """Raise ConfigError if a variant cannot run on so many ranks."""
    each = case.ranks // case.hosts
    place = [f"launch.nodes={case.hosts}", f"launch.processes={each}", "launch.rendezvous=host:1", "nccl=none"]
    for variant in case.variants:
        compose_run([*case.overrides, *variant.overrides, *place])
