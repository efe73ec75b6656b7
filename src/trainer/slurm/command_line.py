"""What the command `slurm` does: checks a run for the place it will have, writes its sbatch file and submits it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.run import Run
    from trainer.slurm.request import Request

EPILOGUE = """What follows -- is for train.py. The run's folder holds the sbatch file and what the job says.
Exit codes: 0 submitted, or printed with --print; 2 cannot be; 3 there is no Slurm here, and the file is printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code."""
    asked = vars(_parser().parse_args(arguments))
    overrides, prints = asked.pop("overrides"), asked.pop("print")

    # These load PyTorch, which --help need not wait for.
    from trainer import config, stamp
    from trainer.preset.sources import CONF
    from trainer.slurm import batch, check, request
    from trainer.spec import ConfigError

    os.environ[stamp.VARIABLE] = started = stamp.now()
    try:
        asked_of_slurm = request.read(asked)
        run = check.check(asked_of_slurm, overrides)
        text = batch.text(asked_of_slurm, run.name, run.folder, started, overrides)
        if prints:
            _print(text, run.folder)
            return 0
        if shutil.which("sbatch") is None:
            print(
                "sbatch: there is no Slurm on this machine; this is the file that would have been submitted",
                file=sys.stderr,
            )
            _print(text, run.folder)
            return 3
        _submit(asked_of_slurm, run, text)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception as error:  # whatever options that do not compose raise
        line = config.explain(error, overrides, CONF)
        if line is None:
            raise
        print(line, file=sys.stderr)
        return 2
    return 0


def _print(text: str, folder: Path) -> None:
    print(text, end="")
    # The job would fail without a word.
    print(
        "output: Slurm makes no folder for what the job says; before the file is submitted:"
        f" mkdir -p {shlex.quote(str(folder.absolute()))}",
        file=sys.stderr,
    )


def _submit(request: Request, run: Run, text: str) -> None:
    from trainer.slurm import batch
    from trainer.spec import ConfigError
    from trainer.whole_file import write_whole

    path = run.folder / batch.NAME
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(
            f"folder: cannot write to {run.folder} ({error.strerror}); choose another place with folder=<path>"
        ) from None
    done = subprocess.run(["sbatch", "--parsable", str(path)], capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        reason = re.sub(r"^sbatch: (error|fatal): ", "", said)
        raise ConfigError(f"sbatch: {reason}; the file is {path}")
    job = done.stdout.strip().partition(";")[0]
    print(f"job {job}: {request.nodes} x {request.tasks} workers; scancel {job} ends it")
    print(f"sbatch file: {path}")
    print(f"output: {run.folder / f'slurm-{job}.out'}")
    print(f"run folder: {run.folder}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "slurm",
        usage="slurm (--gpus G | --processes P) [OPTION ...] -- [option=value ...]",
        description="Run train.py as a job of Slurm, checked before it is submitted.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="machines [1]")
    parser.add_argument("--gpus", type=int, metavar="G", help="GPUs on each node, and as many workers")
    parser.add_argument("--processes", type=int, metavar="P", help="workers on each node, without GPUs")
    parser.add_argument("--cpus", type=int, metavar="C", help="cores for each worker")
    parser.add_argument("--mem", metavar="SIZE", help="memory of each node, as in 64G")
    parser.add_argument("--time", metavar="LIMIT", help="as in 90 (minutes), 1:30:00 or 2-12:00:00")
    for name in ("partition", "account", "qos"):
        parser.add_argument(f"--{name}", metavar="NAME")
    parser.add_argument(
        "--requeue", action="store_true", help="when it is preempted or its time is up, queue again and go on"
    )
    parser.add_argument(
        "--save", type=int, metavar="SECONDS", help="before the time is up, save a checkpoint and leave [120]"
    )
    parser.add_argument(
        "--sbatch", action="append", metavar="OPTION", help="one more of sbatch, as in constraint=h100; may be repeated"
    )
    parser.add_argument(
        "--setup", action="append", metavar="LINE", help="of the shell, before the run, as in 'module load cuda'"
    )
    parser.add_argument("--print", action="store_true", help="print the sbatch file instead of submitting it")
    parser.add_argument("overrides", nargs="*", metavar="option=value", help="for train.py, after --")
    return parser
