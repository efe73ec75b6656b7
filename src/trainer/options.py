"""Every option, what it may be and what it is, as a page: read off the Specs and the YAML files.

`python -m trainer.options > docs/options.md` writes it.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trainer.config import COMMANDS, GROUPS, NODES
from trainer.logger.base import Logger
from trainer.run import Run
from trainer.spec import Spec
from trainer.sweep.options import Sweep

CONF = Path(__file__).resolve().parents[2] / "conf"
COMPONENTS: dict[str, type[Spec]] = {**GROUPS, "logger": Logger}
SECTIONS: dict[str, type[Spec]] = {**NODES, "sweep": Sweep}
WORDS = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "`true`, `false`",
    "object": "names with values",
    "null": "`null`",
}
INTRODUCTION = """# Options

What can be set on the command line, with its default and its unit: `group=choice` for a choice, `group.option=value`
for an option, as in `python train.py comm=topk comm.ratio=0.05`. `null` is no value, lists are written `[a,b]`, and a
name that `kwargs` does not have yet takes a plus: `+model.kwargs.width=64`. `dry_run=true` prints what everything comes
to, and what cannot be combined is in [compatibility.md](compatibility.md). Written by `python -m trainer.options`."""


class Option(NamedTuple):
    key: str
    values: str
    default: Any
    """as JSON has it; ??? where one must be given"""
    meaning: str


class Choice(NamedTuple):
    """One YAML file of a group."""

    name: str
    what: str
    """the comment at its top"""
    cls: type[Spec] | None
    """its component; none where it only chooses others"""
    values: dict[str, Any]
    """what it sets, by dotted key"""


def markdown() -> str:
    groups = list(_groups())
    return "\n\n".join([INTRODUCTION, _contents(groups), _root(), *map(_node, SECTIONS), *map(_group, groups)])


def _groups() -> Iterator[str]:
    """Those that the root chooses from, in its order."""
    for entry in yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]:
        name = next(iter(entry)) if isinstance(entry, Mapping) else entry
        if (CONF / name).is_dir():
            yield name


def _contents(groups: Iterable[str]) -> str:
    return "[The run](#the-run) · " + " · ".join(f"[`{name}`](#{name})" for name in [*SECTIONS, *groups])


def _root() -> str:
    text = (CONF / "config.yaml").read_text()
    values = yaml.safe_load(text)
    known = {option.key: option for option in _options(Run) if option.key in values}
    own = [known[key]._replace(default=values[key]) for key in known if key not in (*SECTIONS, *COMPONENTS)]
    told = [Option(key, WORDS["boolean"], values[key], _comment(text, key)) for key in COMMANDS if key not in SECTIONS]
    return f"## The run\n\n{_table([*own, *told])}"


def _comment(text: str, key: str) -> str:
    """What the comment behind the root's `key` says."""
    found = re.search(rf"^{key}: .*?  # (.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _node(name: str) -> str:
    return f"## `{name}`\n\n{_table(_options(SECTIONS[name], f'{name}.'))}"


def _group(group: str) -> str:
    choices = [_choice(path) for path in sorted((CONF / group).glob("*.yaml"))]
    if group not in COMPONENTS:
        rows = [[f"`{choice.name}`", _cell(choice.what)] for choice in choices]
        return "\n\n".join([f"## `{group}`", "Choices and values of other groups, in one file.", _grid(["", ""], rows)])
    prefix = "logger.{choice}." if group == "logger" else f"{group}."
    takers: dict[type[Spec], list[str]] = {}
    for choice in choices:
        for origin in {_origin(choice.cls, option.key) for option in _options(choice.cls)}:
            takers.setdefault(origin, []).append(choice.name)
    common = {origin for origin, names in takers.items() if len(names) > 1}
    parts = [f"## `{group}`", _decides(group), _choices(choices, common, prefix)]
    for origin in sorted(common, key=lambda origin: -len(takers[origin])):
        who = "All" if len(takers[origin]) == len(choices) else " ".join(f"`{name}`" for name in takers[origin])
        options = [option for option in _options(origin) if _origin(origin, option.key) is origin]
        parts += [f"{who} take:", _table(option._replace(key=prefix + option.key) for option in options)]
    for choice in choices:
        before = prefix.format(choice=choice.name)
        own = [
            option._replace(key=before + option.key, default=choice.values.get(option.key, option.default))
            for option in _options(choice.cls)
            if _origin(choice.cls, option.key) not in common
        ]
        if own:
            parts += [f"### `{group}={choice.name}`", _table(own)]
    return "\n\n".join(parts)


def _decides(group: str) -> str:
    told = (importlib.import_module(COMPONENTS[group].__module__).__doc__ or "").split("\n\n")[0]
    words = told.removeprefix(f"`{group}`: ")
    return words[0].upper() + words[1:]


def _choices(choices: Iterable[Choice], common: set[type[Spec]], prefix: str) -> str:
    """A row for each, with what it sets of the options that it has in common with others."""
    rows = []
    for choice in choices:
        defaults: dict[str, Any] = {}
        for option in _options(choice.cls):
            origin = _origin(choice.cls, option.key)
            if origin in common:
                defaults |= _flat(_default_at(origin, option.key), option.key)
        sets = [
            f"`{prefix}{key}={_plain(value)}`"
            for key, value in choice.values.items()
            if _origin(choice.cls, key) in common and defaults.get(key) != value
        ]
        rows.append([f"`{choice.name}`", _cell(choice.what), " ".join(sets)])
    return _grid(["", "", "sets"], rows) if any(row[2] for row in rows) else _grid(["", ""], [row[:2] for row in rows])


def _choice(path: Path) -> Choice:
    text = path.read_text()
    top = [line.lstrip("# ").rstrip() for line in _top(text.splitlines()) if not line.startswith("# @package")]
    node = yaml.safe_load(text)
    module, _, name = node.pop("_target_", "").rpartition(".")
    cls = getattr(importlib.import_module(module), name) if module else None
    return Choice(path.stem, " ".join(top), cls, dict(_flat(node)) if node else {})


def _top(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("#"):
            return
        yield line


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if not (isinstance(value, Mapping) and value):
        yield key, value
        return
    for name, entry in value.items():
        yield from _flat(entry, f"{key}.{name}" if key else name)


def _options(cls: type[Spec] | None, prefix: str = "") -> list[Option]:
    """What pydantic knows of the options of `cls`, those of its parts with dotted keys."""
    if cls is None:
        return []
    found, known = [], cls.model_json_schema()["properties"]
    for name, field in cls.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, Spec) and not field.is_required():
            found += _options(part, f"{prefix}{name}.")
        elif name in known:
            default = "???" if field.is_required() else known[name]["default"]
            found.append(Option(prefix + name, _values(known[name]), default, " ".join(_meaning(cls, name).split())))
    return found


def _meaning(cls: type[Spec], name: str) -> str:
    """The text under the field, or where a class only has another default, under that of its base."""
    fields = (base.model_fields.get(name) for base in cls.__mro__ if issubclass(base, Spec))
    return next((field.description for field in fields if field and field.description), "")


def _origin(cls: type[Spec] | None, key: str) -> type[Spec]:
    """The first of the classes that `cls` derives from in which the option means what it means there."""
    assert cls is not None
    name = key.split(".")[0]
    bases = [base for base in cls.__mro__ if issubclass(base, Spec) and name in base.model_fields]
    return [base for base in bases if _meaning(base, name) == _meaning(cls, name)][-1]


def _default_at(cls: type[Spec], key: str) -> Any:
    return next(option.default for option in _options(cls) if option.key == key)


def _values(schema: Mapping[str, Any]) -> str:
    """The values that a JSON schema allows, in words."""
    if "anyOf" in schema:
        return ", ".join(_values(branch) for branch in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{_plain(value)}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("format") == "path":
        return "path"
    kind = schema.get("type", "")
    if kind == "array":
        return f"list ({', '.join(map(_values, schema.get('prefixItems', [schema.get('items', {})])))})"
    low = _bound(schema, "minimum", "exclusiveMinimum")
    high = _bound(schema, "maximum", "exclusiveMaximum")
    word = WORDS.get(kind, kind)
    if low and high:
        return f"{low[1]} {low[0].replace('≥', '≤').replace('>', '<')} {word} {high[0]} {high[1]}"
    return " ".join([word, *(low or high or ())])


def _bound(schema: Mapping[str, Any], inclusive: str, exclusive: str) -> tuple[str, str] | None:
    sign = "≥" if inclusive == "minimum" else "≤"
    strict = ">" if inclusive == "minimum" else "<"
    if inclusive in schema:
        return sign, f"{schema[inclusive]:g}" if isinstance(schema[inclusive], float) else f"{schema[inclusive]:,}"
    if exclusive in schema:
        return strict, f"{schema[exclusive]:,}"
    return None


def _table(options: Iterable[Option]) -> str:
    rows = [[f"`{key}`", values, _default(default), _cell(meaning)] for key, values, default, meaning in options]
    return _grid(["option", "values", "default", ""], rows)


def _grid(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, *rows]
    written = ["|".join(["", *(f" {cell} " if cell else " " for cell in line), ""]) for line in lines]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]])


def _default(value: Any) -> str:
    return "must be given" if value == "???" else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    return re.sub(r"([|<*])", r"\\\1", text)


if __name__ == "__main__":
    print(markdown())
