"""Whether all presets of a source work with this version: what a team's CI asks."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from trainer import config
from trainer.preset import sources
from trainer.preset.compose import composed
from trainer.preset.sources import CONF, GROUP, VARIABLE, Preset
from trainer.spec import ConfigError


class Complaint(NamedTuple):
    path: Path
    line: str
    """where in it, what is wrong and what to do"""


def check(folder: Path, overrides: Sequence[str] = ()) -> tuple[list[Preset], list[Complaint]]:
    """All presets of the source in `folder`, and what is wrong with some of them.

    Each is composed with `overrides` and resolved as on a machine without GPUs, so that the answer is the same on every
    machine, for a cluster's presets too. Raises ConfigError where there is none, or a source is missing.
    """
    folder = folder.resolve()
    with including(folder), _environment(CUDA_VISIBLE_DEVICES=""):
        sources.shared()
        found = sources.presets([sources.Source(VARIABLE, folder)])
        if not found:
            raise ConfigError(
                f"{folder}: there is no preset in its folder {GROUP}; put one there as {GROUP}/<name>.yaml"
            )
        lines = [(preset.path, complaint(preset.name, overrides)) for preset in found]
    wrong = [Complaint(path, line) for path, line in lines if line is not None]
    # Hydra passes them over without a word.
    unread = sorted((folder / GROUP).rglob("*.yml"))
    return found, wrong + [Complaint(path, "is not read; let its name end in .yaml") for path in unread]


def complaint(name: str, overrides: Sequence[str] = ()) -> str | None:
    """Why the preset `name` with `overrides` cannot run, in a line; None if it can."""
    words = [f"{GROUP}={name}", *overrides]
    try:
        with _quietly():
            config.resolve(composed(words).config)
    except ConfigError as error:
        return str(error)
    except Exception as error:  # whatever Hydra, OmegaConf and YAML raise
        told = config.explain(error, words, CONF)
        if told is None:
            raise
        return told
    return None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """What resolving logs about this machine is for who runs something on it."""
    logger = logging.getLogger("trainer")
    propagate, logger.propagate = logger.propagate, False
    handler = logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def including(folder: Path) -> AbstractContextManager[None]:
    """Within it `folder` is one more source of shared presets."""
    before = filter(None, [os.environ.get(VARIABLE)])
    return _environment(**{VARIABLE: os.pathsep.join([str(folder.resolve()), *before])})


@contextlib.contextmanager
def _environment(**changes: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
