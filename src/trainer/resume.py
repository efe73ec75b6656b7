"""Which checkpoint a run starts from, and whether it can."""

from __future__ import annotations

import logging
from pathlib import Path

import torch.distributed as dist
import yaml
from torch import nn

from trainer import checkpoint_folder, meeting
from trainer.run import Run
from trainer.spec import ConfigError

log = logging.getLogger(__name__)


def _siblings(run: Run) -> list[Path]:
    """The folders of other runs of this name, the last written first: beside this one, or beside the sweep it is in."""
    sweep = run.folder.parent
    base = next((p for p in run.folder.parents if p.parts[-len(Path(run.name).parts) :] == Path(run.name).parts), sweep)
    own = base / run.folder.relative_to(base).parts[0]
    found = [
        path.parent
        for path in base.glob("**/checkpoints")
        if own not in path.parents and _name_in(path.parent / "run.yaml") == run.name
    ]
    return sorted(found, key=lambda folder: (folder / "checkpoints").stat().st_mtime, reverse=True)


def _name_in(path: Path) -> str | None:
    return yaml.safe_load(path.read_text())["name"] if path.is_file() else None


def check_resume(run: Run) -> Path | None:
    """The checkpoint that `run` starts from, if any. Raises ConfigError if it is damaged or of another model.

    Of a run that was started again that is its own, and the one it once began with may be gone.
    """
    if run.checkpoint.resume is None:
        return None
    resume = "own" if meeting.restarts() and _newest_own(run) else run.checkpoint.resume
    path, passed_over = checkpoint_folder.find(resume, run.folder, _siblings(run))
    for line in passed_over:
        log.warning("%s; going on with %s", line, path or "a fresh start")
    if path is None:
        if run.checkpoint.resume == "auto":
            log.warning("checkpoint.resume=auto found no checkpoint of %s; starting afresh", run.name)
        return None
    saved, present = checkpoint_folder.manifest_of(path)["optimizer"], _optimizer_name(run)
    if saved != present:
        raise ConfigError(
            f"checkpoint.resume: {path} was saved with {saved}, and the optimizer is {present}, which cannot go on with"
            " its state; choose the same optimizer, or start afresh with checkpoint.resume=null"
        )
    stored = {
        name.removeprefix("model."): tuple(entry.size)
        for name, entry in checkpoint_folder.tensors_in(path).items()
        if name.startswith("model.")
    }
    wanted = {name: tuple(value.shape) for name, value in run.model.skeleton(run.data.sample()).state_dict().items()}
    differences = [
        f"{name} is {stored.get(name, 'missing')} there and {wanted.get(name, 'missing')} here"
        for name in sorted(stored.keys() | wanted.keys())
        if stored.get(name) != wanted.get(name)
    ]
    if differences:
        more = f" and {len(differences) - 3} more tensors differ" if len(differences) > 3 else ""
        raise ConfigError(
            f"checkpoint.resume: {path} holds another model: {', '.join(differences[:3])}{more};"
            " choose the model it was saved with, or start afresh with checkpoint.resume=null"
        )
    return path


def _optimizer_name(run: Run) -> str:
    return type(run.optimizer.build(nn.Linear(1, 1))).__name__


def to_start_from(run: Run, group: dist.ProcessGroup) -> Path | None:
    """The checkpoint that all ranks start from: after a restart this run's newest whole one, else the one asked for.

    Collective over `group`. No rank can decide alone: an agent counts the failures that it saw, and one that came back
    with its host has seen none, but looked for its checkpoint when there were newer ones.
    """
    known = (meeting.restarts(), run.checkpoint.resume)
    of_ranks = [known] * dist.get_world_size(group)
    dist.all_gather_object(of_ranks, known, group)
    counts, asked = zip(*of_ranks, strict=True)
    chosen = [asked[0]]
    if dist.get_rank(group) == 0 and (any(counts) or len(set(asked)) > 1):
        newest = _newest_own(run)
        chosen = [asked[0] if newest is None else str(newest)]
    dist.broadcast_object_list(chosen, group=group, group_src=0)
    return None if chosen[0] is None else Path(chosen[0])


def _newest_own(run: Run) -> Path | None:
    """The newest whole checkpoint in this run's folder."""
    return checkpoint_folder.newest_whole(checkpoint_folder.checkpoints_in(run.checkpoints))[0]
