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
    return "\n".join([*lines, "", *_body(request, folder, started, overrides), ""])


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


def _body(request: Request, folder: Path, started: str, overrides: Sequence[str]) -> Iterator[str]:
    yield f"cd {shlex.quote(str(Path.cwd()))} || exit 2"
    yield f"export {stamp.VARIABLE}={started}"
    yield from request.setup
    absolute = shlex.quote(str(folder.absolute()))
    stalled = f"{absolute}/stalled"
    if request.requeue:
        yield from _newest(absolute)
    # The first worker writes the report when the others have left. Where jobs begin without their submitter's
    # environment, which SLURM_EXPORT_ENV hands on, a step would do so without its job's.
    step = ["srun", "--export=ALL", "--kill-on-bad-exit=0", f"--wait={max(SAVING_S, request.save)}"]
    # Since Slurm 22.05 a step does not take it over from its job.
    step += [f"--cpus-per-task={request.cpus}"] if request.cpus else []
    # A step of one task does not know that it is all: train.py would start more.
    alone = ["launch.processes=1"] if request.place.world == 1 else []
    yield shlex.join([*step, sys.executable, str(TRAIN), *overrides, *alone])
    yield "code=$?"
    if request.requeue:
        yield f'[ "$(newest)" = "$before" ] || rm -f {stalled}'
    yield "# Told to save and leave by Slurm. Whoever cancels the job ends this script, too."
    yield f"case $code in {'|'.join(map(str, signals.CODES[1:]))})"
    if request.requeue:
        yield from _requeue(stalled)
    else:
        resume = shlex.quote(f"checkpoint.resume={folder}")
        yield f'  echo "slurm: job $SLURM_JOB_ID has saved and left; to go on from there:" {resume} ;;'
    yield "esac"
    yield "exit $code"


def _newest(folder: str) -> Iterator[str]:
    # Those that are not whole have names that end otherwise.
    yield f"newest() {{ printf '%s\\n' {folder}/checkpoints/step_*[0-9] | tail -n 1; }}"
    yield "before=$(newest)"


def _requeue(stalled: str) -> Iterator[str]:
    """Back into the queue, but for a job that got nowhere twice in a row: it would go round for ever.

    Once may be, since a job can be preempted before its first step.
    """
    yield '  if [ "$(newest)" = "$before" ]; then'
    yield f"    if [ -e {stalled} ]; then"
    why = "was stopped twice before it had saved anything new"
    yield f'      echo "slurm: job $SLURM_JOB_ID {why}, and is not queued again"'
    yield "      exit $code"
    yield "    fi"
    yield f"    touch {stalled}"
    yield "  fi"
    yield '  echo "slurm: job $SLURM_JOB_ID goes back into the queue, and goes on from its checkpoint"'
    yield '  scontrol requeue "$SLURM_JOB_ID" && exit 0 ;;'
