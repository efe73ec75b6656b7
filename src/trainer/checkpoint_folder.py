"""Checkpoints as folders: which ones are whole, which is newest, and reading what they hold without running it.

A checkpoint is written into `<name>.partial` and renamed when every rank's files and the manifest are on disk, so a
folder without that suffix was whole once. The manifest keeps each file's size, which tells a file that was cut since.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from trainer.spec import ConfigError

MANIFEST = "manifest.json"
FORMAT = 2


def path_of(folder: Path, step: int) -> Path:
    """The checkpoint that holds the state after `step` steps."""
    return folder / f"step_{step:08d}"


def partial_of(final: Path) -> Path:
    """Where the checkpoint `final` is written before it is whole."""
    return final.with_name(final.name + ".partial")


def commit(final: Path, facts: dict[str, Any]) -> None:
    """Make the written checkpoint a whole one, under its final name, in one step that a power cut cannot halve."""
    partial = partial_of(final)
    files = {entry.name: entry.stat().st_size for entry in partial.iterdir()}
    with open(partial / MANIFEST, "w") as stream:
        json.dump({"format": FORMAT, **facts, "files": files}, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    if final.exists():
        shutil.rmtree(final)
    partial.rename(final)
    handle = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def prune(folder: Path, keep: int) -> None:
    """Delete all but the `keep` newest whole checkpoints, and what was left half-written."""
    for old in checkpoints_in(folder)[keep:]:
        shutil.rmtree(old)
    for partial in folder.glob("step_*.partial"):
        shutil.rmtree(partial)


def checkpoints_in(folder: Path) -> list[Path]:
    """Checkpoints that were once whole, newest step first."""
    return sorted((p for p in folder.glob("step_*") if p.suffix != ".partial"), reverse=True)


def manifest_of(path: Path) -> dict[str, Any]:
    return json.loads((path / MANIFEST).read_text())


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None if it is whole."""
    try:
        manifest = manifest_of(path)
        if manifest["format"] != FORMAT:
            return f"it has format {manifest['format']}, this version reads {FORMAT}"
        for name, size in manifest["files"].items():
            if not (path / name).exists():
                return f"its file {name} is missing"
            if (path / name).stat().st_size != size:
                return f"its file {name} has {(path / name).stat().st_size} bytes instead of {size}"
        TensorReader(path).read_metadata()
    except FileNotFoundError as error:
        return f"its file {Path(error.filename).name} is missing"
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
        return f"it cannot be read ({type(error).__name__}: {error})"
    return None


def newest_whole(candidates: Iterable[Path]) -> tuple[Path | None, list[str]]:
    """The first whole one of `candidates`, and a line for each damaged one that was passed over."""
    passed_over: list[str] = []
    for path in candidates:
        wrong = damage(path)
        if wrong is None:
            return path, passed_over
        passed_over.append(f"checkpoint {path} is damaged: {wrong}")
    return None, passed_over


def find(resume: str, own: Path, siblings: Iterable[Path]) -> tuple[Path | None, list[str]]:
    """The checkpoint that `checkpoint.resume` means, and lines on what was passed over on the way.

    `own` takes the newest whole one of the run in the folder `own`, `auto` of the runs in the folders `siblings`, in
    their order, and either may find none. A path names a checkpoint, or a run's folder, whose newest whole checkpoint
    it then means. Raises ConfigError for a path that holds none.
    """
    if resume in ("own", "auto"):
        runs = [own] if resume == "own" else siblings
        return newest_whole(path for run in runs for path in checkpoints_in(run / "checkpoints"))
    path = Path(resume)
    if not path.exists():
        raise ConfigError(f"checkpoint.resume: there is no {path}; give a run's folder or one of its checkpoints")
    if (path / "checkpoints").is_dir():
        found, passed_over = newest_whole(checkpoints_in(path / "checkpoints"))
        if found is None:
            reasons = "; ".join(passed_over) or "it is empty"
            raise ConfigError(f"checkpoint.resume: {path / 'checkpoints'} holds no whole checkpoint ({reasons})")
        return found, passed_over
    wrong = damage(path)
    if wrong is not None:
        other, _ = newest_whole(checkpoints_in(path.parent))
        cure = f"use {other}, the newest whole one" if other else "start afresh with checkpoint.resume=null"
        raise ConfigError(f"checkpoint.resume: {path} is damaged: {wrong}; {cure}")
    return path, []


def tensors_in(path: Path) -> dict[str, TensorStorageMetadata]:
    """Name, size and dtype of every tensor in a checkpoint."""
    stored = TensorReader(path).read_metadata().state_dict_metadata
    return {name: entry for name, entry in stored.items() if isinstance(entry, TensorStorageMetadata)}


class TensorReader(dcp.FileSystemReader):
    """Reads checkpoints without running anything they hold: the index may name only the classes an index is made of."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with open(Path(self.path) / ".metadata", "rb") as stream:
            metadata = _IndexUnpickler(stream).load()
        metadata.storage_meta = metadata.storage_meta or dcp.metadata.StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class TensorPlanner(dcp.DefaultLoadPlanner):
    """Loads tensors, read with weights_only, and refuses other objects, which would have to be unpickled."""

    def load_bytes(self, read_item: Any, value: Any) -> None:
        raise ConfigError(f"checkpoint: {read_item.dest_index.fqn} is not a tensor; this is not a checkpoint of ours")


class _IndexUnpickler(pickle.Unpickler):
    MODULES = ("torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem")
    NAMES = frozenset(
        {
            ("collections", "OrderedDict"),
            ("torch", "Size"),
            ("torch.serialization", "_get_layout"),
            ("pathlib", "PosixPath"),
            ("pathlib._local", "PosixPath"),  # its home in Python 3.13
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        # Only classes of these modules: a function reached through them could be made to do something.
        if (module, name) in self.NAMES or (module in self.MODULES and "." not in name):
            found = super().find_class(module, name)
            if isinstance(found, type) or (module, name) in self.NAMES:
                return found
        raise pickle.UnpicklingError(f"the index names {module}.{name}, which no checkpoint of ours holds")
