"""Specs: checked, frozen pieces of configuration, and the errors that stop a run before it starts."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from trainer.preset import renames

if TYPE_CHECKING:
    from trainer.run import Run


class ConfigError(Exception):
    """A reason not to run, in one line: `where: what is wrong with which value; what to do`."""


class Spec(BaseModel):
    """A frozen piece of configuration: unknown keys are refused and values are never converted in silence."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Component(Spec):
    """A Spec that a YAML node names by `_target_` and that a worker builds; each group's base class derives from it."""

    @classmethod
    def choice(cls) -> str:
        """What chooses it on the command line: `topk` for trainer.comm.topk.TopK."""
        return cls.__module__.rpartition(".")[2]

    def check(self, run: Run) -> None:
        """Raise ConfigError if this component cannot work in `run`. Called in the launcher, before any process."""


C = TypeVar("C", bound=Component)
S = TypeVar("S", bound=Spec)


def make(node: Any, base: type[C], where: str) -> C:
    """Turn the YAML node at `where` into the component that its `_target_` names, which must derive from `base`.

    Raises ConfigError for a missing or foreign `_target_`, an unknown option, a wrong type or a value out of range.
    """
    if not isinstance(node, Mapping) or not isinstance(node.get("_target_"), str):
        raise ConfigError(f"{where}: {node!r} names no component; choose one with {where}=<name>")
    target = node["_target_"]
    cls = _locate(target, f"{where}._target_")
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise ConfigError(f"{where}._target_: {target} is not a {base.__name__}; name a subclass of {_path(base)}")
    if cls is base and hasattr(base, "build"):
        raise ConfigError(f"{where}._target_: {target} is the base class; name one of its subclasses")
    return validate(cls, {key: value for key, value in node.items() if key != "_target_"}, where)


def validate(cls: type[S], values: Any, where: str = "") -> S:
    """Build `cls` from plain values; the first thing that is wrong becomes a ConfigError that names its key."""
    if not isinstance(values, Mapping):
        first = next(iter(cls.model_fields))
        raise ConfigError(f"{where}: {values!r} is no set of options; set {where}.{first}=<value>")
    try:
        return cls.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_explain(error, cls, where)) from None


def load_callable(path: str, where: str) -> Any:
    """Import `package.module:attribute`, the form in which users name their own code. Raises ConfigError."""
    module, colon, attribute = path.partition(":")
    if not (module and colon and attribute):
        raise ConfigError(
            f"{where}: {path!r} is not of the form package.module:callable; write for example mine.net:Net"
        )
    found = _locate(f"{module}.{attribute}", where)
    if not callable(found):
        raise ConfigError(f"{where}: {path} is a {type(found).__name__}, not a callable; name a function or a class")
    return found


def call_factory(path: str, kwargs: Mapping[str, Any], group: str) -> Any:
    """What the user's callable `path`, named by `<group>.factory`, returns for `kwargs`. Raises ConfigError."""
    factory = load_callable(path, f"{group}.factory")
    try:
        return factory(**kwargs)
    except Exception as error:  # the user's code may raise anything
        raise ConfigError(
            f"{group}.factory: {path} failed with {type(error).__name__}: {error}; check {group}.kwargs"
        ) from error


def dump(value: Any) -> Any:
    """Plain data for `value`, with the `_target_` of every component, so that `make` gives the same Spec back."""
    if isinstance(value, Spec):
        fields = {name: dump(getattr(value, name)) for name in type(value).model_fields}
        return {"_target_": _path(type(value)), **fields} if isinstance(value, Component) else fields
    if isinstance(value, Mapping):
        return {key: dump(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [dump(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word nearest to `word`, else `; choose from: …`."""
    known = sorted(set(known))
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean '{near[0]}'?" if near else f"; choose from: {', '.join(known)}"


def unknown_option(key: str, known: Iterable[str], word: str | None = None) -> str:
    """The line for the option `key`, which does not exist: its new name if it was renamed, else what was meant.

    `word` is what is compared with `known`, the whole key by default.
    """
    new = renames.read().option(key)
    if new is not None:
        return f"{key}: is now called {new}; write {new} instead"
    return f"{key}: unknown option{did_you_mean(word or key, known)}"


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _locate(path: str, where: str) -> Any:
    module, _, attribute = path.rpartition(".")
    if not module:
        raise ConfigError(f"{where}: {path!r} names no module; write package.module.name")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        # Importing a user's module runs it, so anything may be raised; the user needs the reason, not our stack.
        raise ConfigError(
            f"{where}: cannot import {module} ({type(error).__name__}: {error}); check the name and PYTHONPATH"
        ) from error
    if not hasattr(found, attribute):
        public = [name for name in vars(found) if not name.startswith("_")]
        raise ConfigError(f"{where}: {module} has no '{attribute}'{did_you_mean(attribute, public)}")
    return getattr(found, attribute)


def _explain(error: ValidationError, cls: type[Spec], where: str) -> str:
    problems = error.errors(include_url=False)
    problem, keys = problems[0], _keys(problems[0]["loc"])
    key = ".".join(([where] if where else []) + keys)
    # A union complains once a branch about the same key.
    others = len({tuple(_keys(other["loc"])) for other in problems}) - 1
    more = f" (and {others} more)" if others else ""
    if problem["type"] == "extra_forbidden":
        return unknown_option(key, _fields_at(cls, keys[:-1]), keys[-1]) + more
    if problem["type"] == "missing":
        return f"{key}: no value is given; set {key}=<value>{more}"
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{key}: {problem['input']!r} is not allowed: {message}{_meaning(cls, keys)}{more}"


def _keys(location: tuple[int | str, ...]) -> list[str]:
    # Branches of a union appear in pydantic's location under the type's name; they are not keys that a user wrote.
    return [str(part) for part in location if "[" not in str(part) and part not in _TYPE_NAMES]


_TYPE_NAMES = frozenset({"int", "float", "str", "bool", "none", "constrained-int", "constrained-float"})


def _fields_at(cls: type[Spec], keys: list[str]) -> Iterable[str]:
    for key in keys:
        field = cls.model_fields.get(key)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, Spec)):
            return ()
        cls = field.annotation
    return cls.model_fields


def _meaning(cls: type[Spec], keys: list[str]) -> str:
    if not keys or keys[-1] not in _fields_at(cls, keys[:-1]):
        return ""
    for key in keys[:-1]:
        cls = cls.model_fields[key].annotation  # type: ignore[assignment]
    description = cls.model_fields[keys[-1]].description
    return f"; {keys[-1]} is {description}" if description else ""
