"""Which presets a preset includes by its defaults list, and whether it comes back to itself, which Hydra follows for
ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from trainer.preset.sources import GROUP, Preset


def circle(start: str, known: Iterable[Preset]) -> str | None:
    """What is wrong, in a line, if the preset `start` comes back to itself or to one that it includes."""
    return _follow([start], {preset.name: preset.path for preset in known})


def _follow(way: list[str], paths: Mapping[str, Path]) -> str | None:
    path = paths.get(way[-1])
    # Hydra takes a name from the group on in the preset that was chosen, and from the file's folder in one that is
    # included.
    folder = way[-1].rpartition("/")[0] if len(way) > 1 else ""
    for name, written in _included(path, folder) if path else ():
        if name is None:
            return (
                f"{GROUP}/{way[-1]}: includes itself, since '{written}' means whatever {GROUP}= chooses; write"
                f" '/{GROUP}/{written.partition(':')[2].strip()}'"
            )
        if name == way[-1]:
            return f"{GROUP}/{name}: includes itself; take '{written}' out of its defaults"
        if name in way:
            circle = [*way[way.index(name) :], name]
            return f"{GROUP}/{name}: includes itself, by {' -> '.join(circle)}; take one of them out of its defaults"
        found = _follow([*way, name], paths)
        if found:
            return found
    return None


def _included(path: Path, folder: str) -> list[tuple[str | None, str]]:
    """Each included preset with what is written; None stands for the one that the command line chooses.

    A name without a slash in front is one in `folder`.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError:
        return []  # Hydra stops there, with words of its own
    entries = content.get("defaults", []) if isinstance(content, Mapping) else []
    found: list[tuple[str | None, str]] = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping):
            found += [(None, f"{key}: {value}") for key, value in entry.items() if str(key).strip() == f"/{GROUP}"]
        elif entry != "_self_":
            name = str(entry).partition("@")[0].removesuffix(".yaml")
            if not name.startswith("/"):
                found.append((f"{folder}/{name}".lstrip("/"), str(entry)))
            elif name.startswith(f"/{GROUP}/"):
                found.append((name.removeprefix(f"/{GROUP}/"), str(entry)))
    return found
