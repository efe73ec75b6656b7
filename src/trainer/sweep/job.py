"""One run of a sweep, from its start to its result, under whatever launcher."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from trainer import place
from trainer.errors import Diverged, LostPeer
from trainer.launch import Stopped, WorkerFailed
from trainer.run import Run
from trainer.spec import ConfigError
from trainer.sweep.grid import identity
from trainer.sweep.objective import measured
from trainer.sweep.options import Sweep
from trainer.sweep.result import Result, Status, keep, read


def run(
    folder: Path,
    overrides: Sequence[str],
    options: Sweep,
    prepare: Callable[[Path | None], Run],
    start: Callable[[Run], None],
    tell: Callable[[int, str], None],
    keeps: bool = True,
) -> float | None:
    """Prepare and start the run in `folder`, and give the value that ranks it, if it has one.

    Its result is kept in the folder, by the one process that `keeps` it where several go through the sweep together.
    `prepare` is given the checkpoint that the run goes on from. What would end a single run is the result's reason, and
    `tell` is told, with the exit code. A signal ends the sweep as well, and so does a failure that leaves the processes
    of torchrun or srun out of step.
    """
    before = read(folder)
    if before is not None and identity(before.overrides) != identity(overrides):
        before = None
    spent = before.seconds if before else 0.0
    options = options.model_copy(update={"resume": None})
    result = Result(overrides=list(overrides), options=options, status="running", seconds=spent)
    if keeps:
        keep(folder, result)
    began, error = time.monotonic(), None
    # What holds where nothing below says another.
    ended: dict[str, object] = {"status": "stopped", "reason": "stopped by a signal"}
    try:
        status, error = _attempt(lambda: prepare(_own_checkpoint(folder) if before else None), start)
        ended = {"status": status, "reason": "" if error is None else _in_words(error)}
        if error is not None:
            tell(2 if status == "refused" else 1, str(ended["reason"]))
    except Stopped as stop:
        ended["reason"] = f"stopped by {stop}"
        raise
    finally:
        result = result.model_copy(update={**ended, "seconds": spent + time.monotonic() - began})
        result = result if result.status == "refused" else measured(folder, result, options)
        result = keep(folder, result) if keeps else result
    if error is not None and place.launcher(os.environ) == "other" and not isinstance(error, (ConfigError, Diverged)):
        sys.exit(1)
    return result.value


def _own_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of the run in `folder`. Where there is none, what is half-written is removed."""
    # Reading checkpoints takes long to import, and most runs have none.
    from trainer.checkpoint_folder import checkpoints_in, newest_whole

    kept = folder / "checkpoints"
    found, _ = newest_whole(checkpoints_in(kept))
    if found is None:
        # Another process of the same run may do so at the same time.
        shutil.rmtree(kept, ignore_errors=True)
    return found


def _attempt(prepare: Callable[[], Run], start: Callable[[Run], None]) -> tuple[Status, Exception | None]:
    try:
        ready = prepare()
    except ConfigError as error:
        return "refused", error
    try:
        start(ready)
    except Stopped:
        raise
    except Exception as error:
        return "failed", error
    return "done", None


def _in_words(error: Exception) -> str:
    if isinstance(error, (ConfigError, WorkerFailed, Diverged, LostPeer)):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"folder: {error.strerror}; make room, and go on with sweep.resume"
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"
