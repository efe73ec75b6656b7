"""From all options of a run to the few that make it again: choices of groups, and what differs from their defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trainer.spec import ConfigError

# Of a list of several choices, each with a name of its own; of every other group there is one.
LISTED = "logger"
Node = Mapping[str, Any]


class Distilled(NamedTuple):
    choices: dict[str, Any]
    """of groups, where they are not the default ones"""
    values: dict[str, Any]
    """options, where they are not the choices' defaults"""
    unset: list[str]
    """variables that the default sets and the run did not: a preset can add, and not take away"""


def files_of(group: str, folders: Iterable[Path]) -> dict[str, Node]:
    """The choices of `group` by name, as they stand in their files."""
    found: dict[str, Node] = {}
    for folder in folders:
        for path in sorted((folder / group).rglob("*.yaml")):
            node = yaml.safe_load(path.read_text(encoding="utf-8"))
            if isinstance(node, Mapping):
                found[path.relative_to(folder / group).with_suffix("").as_posix()] = node
    return found


def distil(
    options: Node,
    defaults: dict[str, Any],
    folders: Sequence[Path],
    compose: Callable[[Mapping[str, Any]], Node],
) -> Distilled:
    """`options` as a preset that differs from the defaults in as few places as possible.

    `defaults` is the default choice of each group, `folders` have a folder a group, and `compose` gives all options for
    some choices. Raises ConfigError for a component that no choice names.
    """
    choices: dict[str, Any] = {}
    # Hydra tells the choices from the last to the first.
    for group, default in reversed(defaults.items()):
        if group in options and group != LISTED:
            choice = _nearest(group, options[group], files_of(group, folders), default)
            if choice != default:
                choices[group] = choice
    several = list(options.get(LISTED) or {})
    if several != defaults[LISTED]:
        choices[LISTED] = several
    # Where nothing is listed the node is not there.
    base = {LISTED: {}, **compose(choices)}
    unset = sorted(set(base["nccl"].get("env") or {}) - set(options["nccl"].get("env") or {}))
    return Distilled(choices, differences(base, options), unset)


def differences(base: Node, options: Node) -> dict[str, Any]:
    """Those of `options` that `base` lacks or has another value for."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        before = base.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            within = differences(before, value)
            if within:
                found[key] = within
        elif not _same(before, value) or key not in base:
            found[key] = value
    return found


def _same(one: Any, other: Any) -> bool:
    # True is 1 to Python, and another value to an option.
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _nearest(group: str, node: Node, files: Mapping[str, Node], default: str) -> str:
    """The choice of the same component from which `node` differs in the fewest options."""
    target = node["_target_"]
    fitting = {name: file for name, file in files.items() if file.get("_target_") == target}
    if not fitting:
        raise ConfigError(
            f"{group}._target_: no file in {group}/ names {target}, so no preset can choose it; write"
            f" {group}/<name>.yaml with this _target_ and its options"
        )
    own = target.split(".")[-2]
    return min(fitting, key=lambda name: (_count(differences(fitting[name], node)), name != default, name != own, name))


def _count(values: Node) -> int:
    return sum(_count(value) if isinstance(value, Mapping) else 1 for value in values.values())
