"""Where presets come from: the trainer's own conf, the folders of TRAINER_PRESETS, and installed packages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainer.spec import ConfigError

CONF = Path(__file__).resolve().parents[3] / "conf"
VARIABLE = "TRAINER_PRESETS"
ENTRY_POINTS = "trainer.presets"
# The folder within each source that holds presets; beside it a source may have choices of other groups.
GROUP = "experiment"


class Source(NamedTuple):
    name: str
    """who brings it: conf, TRAINER_PRESETS or a package"""
    folder: Path
    """as it lies on Hydra's search path: presets are in its folder `experiment`"""


class Preset(NamedTuple):
    name: str
    """as in `experiment=<name>`, with a slash for each folder"""
    path: Path
    source: Source


def own() -> Source:
    return Source("conf", CONF)


def shared(environment: Mapping[str, str] = os.environ) -> list[Source]:
    """The folders of the variable TRAINER_PRESETS, in its order, and those of the entry points `trainer.presets`.

    Raises ConfigError for a folder that does not exist or holds no presets, and for a file that two sources have.
    """
    found: dict[Path, Source] = {}
    for word in filter(None, environment.get(VARIABLE, "").split(os.pathsep)):
        folder = Path(word).expanduser().resolve()
        found.setdefault(folder, _checked(Source(VARIABLE, folder), f"take it out of {VARIABLE}"))
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        source = _of_package(point)
        found.setdefault(source.folder, source)
    found.pop(CONF, None)
    if found:
        _check_names([own(), *found.values()])
    return list(found.values())


def presets(sources: Iterable[Source]) -> list[Preset]:
    """All presets of `sources`, by source and name."""
    return [
        Preset(path.relative_to(source.folder / GROUP).with_suffix("").as_posix(), path, source)
        for source in sources
        for path in sorted((source.folder / GROUP).rglob("*.yaml"))
    ]


def everywhere() -> list[Preset]:
    """The trainer's own presets and all that are shared with this machine. Raises ConfigError as `shared`."""
    return presets([own(), *shared()])


def _of_package(point: importlib.metadata.EntryPoint) -> Source:
    name = f"package {point.dist.name if point.dist else point.name}"
    try:
        spec = importlib.util.find_spec(point.value)
    except Exception:  # a package within another imports that one, which may raise anything
        spec = None
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise ConfigError(
            f"{name}: its entry point {ENTRY_POINTS} names {point.value}, which is no package here; install it again,"
            " or take it away"
        )
    return _checked(Source(name, Path(places[0]).resolve()), f"take {name} away")


def _checked(source: Source, otherwise: str) -> Source:
    if not source.folder.is_dir():
        raise ConfigError(f"{source.name}: there is no folder {source.folder}; make it, or {otherwise}")
    if not (source.folder / GROUP).is_dir():
        raise ConfigError(
            f"{source.name}: {source.folder} has no folder {GROUP}, in which presets lie; make it, or {otherwise}"
        )
    return source


def _check_names(sources: Sequence[Source]) -> None:
    """Hydra takes the first of two files of one name and says nothing."""
    first: dict[str, Path] = {}
    groups = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    for source in sources:
        for path in sorted(path for group in groups for path in (source.folder / group).rglob("*.yaml")):
            name = path.relative_to(source.folder).with_suffix("").as_posix()
            if name in first:
                raise ConfigError(f"{name}: {first[name]} and {path} have the same name; rename one of them")
            first[name] = path
