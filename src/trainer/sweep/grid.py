"""Which runs a sweep has to do: those asked for, without those that its folder says are done."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainer.spec import ConfigError
from trainer.sweep.result import Result, read_all
from trainer.whole_file import write_whole

NAME = "grid.json"
FOREIGN = ("sweep.", "hydra.", "hydra/", "launch.node_rank=", "launch.rendezvous=")
# Names of folders and what their runs are told.
Grid = Mapping[str, Sequence[str]]

# The folders that this process holds, and the open files that say so.
_held: dict[Path, int] = {}


class Rest(NamedTuple):
    jobs: dict[str, Sequence[str]]
    """to run, in the order asked for"""
    lines: list[str]
    """what is gone on with, and how the grid asked for differs from the folder's"""


def identity(overrides: Iterable[str]) -> frozenset[str]:
    """What makes two runs of a sweep the same: their options, less those of the sweep itself and of a node's own."""
    return frozenset(each for each in overrides if not each.lstrip("+~").startswith(FOREIGN))


def remaining(asked: Sequence[Sequence[str]], grid: Grid, results: Mapping[str, Result]) -> Rest:
    """Compare what is asked for with the folder's grid and results; nothing asked for means the whole grid.

    A run that is done is left; one that began and did not end goes on in its folder; a failed one is tried again, and a
    refused one is checked again; a new one gets the next free number. Raises ConfigError where all are new: another
    sweep was meant, or an option that all its runs share is missing.
    """
    known = {identity(overrides): name for name, overrides in grid.items()}
    wanted = {identity(overrides): overrides for overrides in asked or grid.values()}
    numbers = [int(name) for name in grid if name.isdigit()]
    free = 1 + max(numbers, default=-1)
    new = [key for key in wanted if key not in known]
    if grid and len(new) == len(wanted):
        given = " ".join(sorted(set.intersection(*(set(identity(overrides)) for overrides in grid.values()))))
        raise ConfigError(
            f"sweep.resume: none of the {len(new)} runs asked for is one of the sweep's, all of which have:"
            f" {given or 'nothing in common'}; give what it was given, or sweep.resume alone"
        )
    names = {**known, **{key: str(free + at) for at, key in enumerate(new)}}
    jobs, counts = {}, {"done": 0, "begun": 0}
    for key, overrides in wanted.items():
        before = results.get(names[key])
        if before is not None and before.status == "done":
            counts["done"] += 1
            continue
        counts["begun"] += before is not None
        jobs[names[key]] = overrides
    lines = [
        f"{counts['done']} of {len(wanted)} runs are done; {len(jobs)} are to do, of which {counts['begun']} had begun"
    ]
    if new:
        lines.append(f"{len(new)} of them are new to this sweep's grid: {', '.join(names[key] for key in new)}")
    if foreign := [name for key, name in known.items() if key not in wanted]:
        lines.append(
            f"the grid asked for lacks {len(foreign)} runs of this sweep, which are left as they are and ranked too:"
            f" {', '.join(foreign)}"
        )
    return Rest(jobs, lines)


def read(sweep: Path) -> Grid:
    """The grid in the folder of a sweep. Raises ConfigError where there is none."""
    try:
        found = json.loads((sweep / NAME).read_text())
        return {str(name): [str(each) for each in overrides] for name, overrides in found.items()}
    except FileNotFoundError:
        what = "holds no sweep" if sweep.is_dir() else "is no folder"
        raise ConfigError(f"sweep.resume: {sweep} {what}; name one that a sweep printed at its end") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"sweep.resume: {sweep / NAME} cannot be read ({error}); start a new sweep") from None


def write(sweep: Path, grid: Grid) -> None:
    write_whole(sweep / NAME, json.dumps(grid, indent=1) + "\n")


def claim(sweep: Path) -> None:
    """Take the folder for this process as long as it lives. Raises ConfigError where another process has it."""
    if sweep.resolve() in _held:
        return
    handle = os.open(sweep, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ConfigError(
            f"sweep: another process is running the sweep in {sweep}; wait for it, or leave the folder to it"
        ) from None
    _held[sweep.resolve()] = handle


def open_new(sweep: Path) -> None:
    """Make the folder of a new sweep and claim it. Raises ConfigError where it cannot be made or holds another."""
    try:
        sweep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"hydra.sweep.dir: cannot write to {sweep} ({error.strerror}); choose another with hydra.sweep.dir=<path>"
        ) from None
    claim(sweep)
    if (sweep / NAME).exists() or read_all(sweep):
        raise ConfigError(
            f"hydra.sweep.dir: {sweep} holds another sweep; choose a new folder, or go on with it by"
            f" sweep.resume={sweep}"
        )
