"""A finished run as a preset: what differs from the defaults, under a comment on what was measured where."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.config import GROUPS
from trainer.overlap import evidence
from trainer.overlap.evidence import Evidence
from trainer.preset import measured, sources
from trainer.preset.compose import as_yaml, composed
from trainer.preset.distil import distil
from trainer.preset.portable import portable
from trainer.preset.sources import CONF, GROUP
from trainer.spec import ConfigError
from trainer.whole_file import write_whole

WIDTH = 118


def save(run: Path, name: str, to: Path | None = None, when: str | None = None) -> Path:
    """Write the run in the folder `run` as preset `name` into the source `to`, or the trainer's own; the file's path.

    `when` says when to use it, in a line. Raises ConfigError for a folder without a run, a name that is taken or none,
    and a run that no preset can make.
    """
    if not re.fullmatch(r"[\w-]+(/[\w-]+)*", name):
        raise ConfigError(
            f"name: {name!r} is no name of a preset; use letters, digits, '_' and '-', and '/' for folders"
        )
    read = read_run(run)
    target = (to or CONF).resolve()
    path = target / GROUP / f"{name}.yaml"
    taken = [preset.path for preset in sources.everywhere() if preset.name == name]
    if taken or path.exists():
        raise ConfigError(f"name: there is a preset {name} already, {(taken or [path])[0]}; choose another name")
    keep(read, name, path, when)
    return path


def keep(read: Evidence, name: str, path: Path, when: str | None) -> None:
    """Write the run that was `read` as preset `name` to `path`. Raises ConfigError where no preset can make it."""
    _write(path, text(read, name, when, [CONF, *(source.folder for source in sources.shared())]))


def read_run(run: Path) -> Evidence:
    """The record of the run in a folder. Raises ConfigError where there is none."""
    read = evidence.read(run)
    if not read.config:
        raise ConfigError(
            f"{run}: there is no run.yaml of a run in it; name a run's folder, which a run prints at its end"
        )
    lacking = [group for group in GROUPS if "_target_" not in (read.config.get(group) or ())]
    if lacking:
        raise ConfigError(f"{run}/run.yaml: names no {lacking[0]}, so it is not whole; save a run that has one")
    return read


def text(read: Evidence, name: str, when: str | None, folders: Sequence[Path]) -> str:
    """The preset's file. `folders` hold the choices of groups."""
    options, left_out = portable(read.config)
    defaults = composed()
    found = distil(options, defaults.choices, folders, lambda choices: composed(_words(choices)).tree())
    comments = [when or measured.title(read), *measured.facts(read), *_again(read)]
    if left_out:
        which = " ".join(f"{key}={value}" for key, value in left_out.items())
        comments.append(f"Found on that machine, and looked up anew on every other: {which}.")
    if found.unset:
        comments.append(f"The environment of the run, and not nccl.env, decided {', '.join(found.unset)}.")
    body: dict[str, Any] = {}
    if found.choices:
        body["defaults"] = [{f"override /{group}": choice} for group, choice in found.choices.items()]
    written = as_yaml({**body, **found.values}) if body or found.values else ""
    return "\n".join(["# @package _global_", *_wrapped(comments), written])


def _words(choices: Mapping[str, Any]) -> list[str]:
    return [
        f"{group}=[{','.join(choice)}]" if isinstance(choice, list) else f"{group}={choice}"
        for group, choice in choices.items()
    ]


def _again(read: Evidence) -> list[str]:
    """How to start it on as many processes and cores, where that is not what a machine takes by itself."""
    usual = {"processes": ("auto", 1), "nodes": (1,), "threads": ("auto",)}
    asked = {key: read.option(f"launch.{key}") for key in usual}
    words = [f"launch.{key}={value}" for key, value in asked.items() if value not in (None, *usual[key])]
    return [f"It was started with {' '.join(words)}, which is not part of it."] if words else []


def _wrapped(comments: Iterable[str]) -> list[str]:
    return [
        line
        for comment in comments
        for line in textwrap.wrap(
            comment,
            WIDTH,
            initial_indent="# ",
            subsequent_indent="#   ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _write(path: Path, content: str) -> None:
    """Whole or not at all, and never over another file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); choose another place with --to DIR") from None
