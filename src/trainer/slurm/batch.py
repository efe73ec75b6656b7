"""The sbatch file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainer import signals, stamp
from trainer.launch import SAVING_S
from trainer.slurm.request import Request

TRAIN = Path(__file__).resolve().parents[3] / "train.py"
NAME = "job.sbatch"


def text(request: Request, name: str, folder: Path, started: str, overrides: Sequence[str]) -> str:
    """The file that runs `train.py overrides` as a job called `name`, from the present folder.

    `started` stamps it, so that a job that Slurm starts again has the same `folder`.
    """
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH --{option}" for option in _options(request, name, folder))]
    return "\n".join([*lines, "", *_body(request, started, overrides), ""])


def _options(request: Request, name: str, folder: Path) -> Iterator[str]:
    workers = {"gpus-per-node": request.gpus, "cpus-per-task": request.cpus, "mem": request.mem}
    limits = {key: getattr(request, key) for key in ("time", "partition", "account", "qos")}
    # In the name of a file Slurm's own signs begin with this one.
    output = str(folder.absolute()).replace("%", "%%") + "/slurm-%j.out"
    yield from (
        f"{key}={shlex.quote(str(value))}"
        for key, value in {
            "job-name": name,
            "nodes": request.nodes,
            "ntasks-per-node": request.tasks,
            **workers,
            **limits,
            "output": output,
            # Of a job that is started again, what it said before stays.
            "open-mode": "append",
            # To every process of the step, as Slurm does when it preempts.
            "signal": f"TERM@{request.save}",
        }.items()
        if value is not None
    )
    yield "requeue" if request.requeue else "no-requeue"
    for option in request.sbatch:
        key, equals, value = option.partition("=")
        yield f"{key}{equals}{shlex.quote(value) if value else ''}"


def _body(request: Request, started: str, overrides: Sequence[str]) -> Iterator[str]:
    yield f"cd {shlex.quote(str(Path.cwd()))} || exit 2"
    yield f"export {stamp.VARIABLE}={started}"
    yield from request.setup
    # The first worker writes the report when the others have left.
    step = ["srun", "--kill-on-bad-exit=0", f"--wait={SAVING_S}"]
    # Since Slurm 22.05 a step does not take it over from its job.
    step += [f"--cpus-per-task={request.cpus}"] if request.cpus else []
    # A step of one task does not know that it is all: train.py would start more.
    alone = ["launch.processes=1"] if request.place.world == 1 else []
    yield shlex.join([*step, sys.executable, str(TRAIN), *overrides, *alone])
    yield "code=$?"
    yield "# Told to save and leave by Slurm. Whoever cancels the job ends this script, too."
    yield f"case $code in {'|'.join(map(str, signals.CODES[1:]))})"
    if request.requeue:
        yield '  echo "slurm: job $SLURM_JOB_ID goes back into the queue, and goes on from its checkpoint"'
        yield '  scontrol requeue "$SLURM_JOB_ID" && exit 0 ;;'
    else:
        yield '  echo "slurm: job $SLURM_JOB_ID has saved and left; checkpoint.resume=auto goes on from there" ;;'
    yield "esac"
    yield "exit $code"
