"""What is known of one run of a sweep, in a small file in its folder, from its start on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from trainer.sweep.options import Sweep
from trainer.whole_file import write_whole

log = logging.getLogger(__name__)

NAME = "result.json"
Status = Literal["running", "done", "stopped", "failed", "refused"]

# By the folder: what a full disk did not take is still ranked by the process that knows it.
_unwritten: dict[Path, Result] = {}


class Result(BaseModel):
    overrides: list[str]
    """what the run was told on the command line"""
    options: Sweep
    """by which it is ranked"""
    status: Status
    """running: it began; if no process runs it any more, it was killed"""
    value: float | None = None
    """that ranks it"""
    seconds: float = 0.0
    """that it took, with its start, over all the times that it was continued"""
    reason: str = ""
    """why it failed, was refused, or has no value"""
    metrics: dict[str, float] = {}
    """every metric, as `objective.results` gives it"""


def keep(folder: Path, result: Result) -> Result:
    """Write the result into the run's folder, whole or not at all, and give it.

    What a full disk does not take is kept in memory, and a run that seemed done has failed.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / NAME, result.model_dump_json(indent=1) + "\n")
    except OSError as error:
        why = f"its result could not be written ({error.strerror})"
        log.warning("sweep: %s: %s", folder, why)
        if result.status == "done":
            # Its metrics were not either, perhaps, and what is left of them is no value to rank it by.
            result = result.model_copy(update={"status": "failed", "value": None, "reason": why})
        _unwritten[folder] = result
    else:
        _unwritten.pop(folder, None)
    return result


def read(folder: Path) -> Result | None:
    """The result of the run in `folder`, if it has a whole one."""
    folder = folder.absolute()
    if folder in _unwritten:
        return _unwritten[folder]
    try:
        return Result.model_validate_json((folder / NAME).read_text())
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def read_all(sweep: Path) -> dict[str, Result]:
    """The results in the folder of a sweep, by the names of the runs' folders, in the order of their numbers."""
    sweep = sweep.absolute()
    folders = {path.parent for path in sweep.glob(f"**/{NAME}")} | {
        path for path in _unwritten if sweep in path.parents
    }
    found = {str(folder.relative_to(sweep)): result for folder in folders if (result := read(folder)) is not None}
    return dict(sorted(found.items(), key=lambda entry: _number(entry[0])))


def _number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (1 << 60, name)


def swept(overrides: Sequence[Sequence[str]]) -> list[str]:
    """Keys of `key=value` overrides whose values differ between runs, in the order in which they were written."""
    values: dict[str, set[str | None]] = {}
    for run in overrides:
        for key, _ in map(split, run):
            values.setdefault(key, set())
    for run in overrides:
        given = dict(map(split, run))
        for key, seen in values.items():
            seen.add(given.get(key))
    return [key for key, seen in values.items() if len(seen) > 1]


def split(override: str) -> tuple[str, str]:
    """(key, value) of an override as it was written; the key without the plus signs of one that adds."""
    key, _, value = override.partition("=")
    return key.lstrip("+"), value
