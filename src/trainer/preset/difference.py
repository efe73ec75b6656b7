"""What differs between two presets or runs, after all defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trainer.preset import sources
from trainer.preset.compose import composed
from trainer.preset.portable import portable
from trainer.preset.save import read_run
from trainer.preset.sources import GROUP
from trainer.spec import ConfigError, did_you_mean

# What one of the two does not have at all.
NONE = "-"


class Difference(NamedTuple):
    option: str
    """dotted; of a group, its choice of component"""
    one: str
    other: str


def options_of(name: str) -> dict[str, Any]:
    """All options, but none of one run, of the run in the folder `name` or of the preset of that name."""
    if Path(name).is_dir():
        return portable(read_run(Path(name)).config)[0]
    known = [preset.name for preset in sources.everywhere()]
    if name not in known:
        raise ConfigError(f"{name}: is neither a run's folder nor a preset{did_you_mean(name, known)}")
    return portable(composed([f"{GROUP}={name}"]).tree())[0]


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """The options that differ, in the order in which the two have them; a component before its options."""
    first, second = dict(_leaves(one)), dict(_leaves(other))
    return [
        Difference(option.removesuffix("._target_"), first.get(option, NONE), second.get(option, NONE))
        for option in {**first, **second}
        if first.get(option) != second.get(option)
    ]


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif key == "_target_":
            yield f"{prefix}{key}", str(value).split(".")[-2]
        else:
            yield f"{prefix}{key}", _text(value)


def _text(value: Any) -> str:
    """As it is written in YAML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
