"""Who set which variable: the environment, the run's own settings, and NCCL's files."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trainer.nccl.checker.table import concerns

ADMINISTRATOR = "/etc/nccl.conf"
"""the file that NCCL reads always, and last"""


@dataclass(frozen=True)
class Value:
    """A variable's text and who gave it."""

    value: str
    source: str
    """environment, nccl.env, preset, or the file's path"""
    over: tuple[Value, ...] = field(default=(), compare=False)
    """what it wins over, the strongest first"""
    problem: str = field(default="", compare=False)
    """why this is no variable: a file that cannot be read, or a line of it that NCCL skips"""
    file: str = field(default="", compare=False)
    """the path of the file that it comes from, if it comes from one"""


def gather(
    environment: Mapping[str, str],
    preset: Mapping[str, str],
    overrides: Mapping[str, str],
    files: bool = True,
    preset_name: str = "",
) -> dict[str, Value]:
    """Every variable that concerns the transport, as NCCL would find it, with its source.

    The user's environment wins over `overrides` (nccl.env), these over `preset`, and that over NCCL's files. What is
    wrong with a file stands in the result under its path, with the line's number, and has a `problem`.
    """
    mine = {name: value for name, value in environment.items() if concerns(name)}
    layers: list[dict[str, Value]] = [
        _from("environment", mine),
        _from("nccl.env", overrides),
        _from(f"preset {preset_name}".rstrip(), preset),
    ]
    if files:
        # The launcher puts all of the above into the workers' environment, where NCCL looks for the path of its file.
        chosen = next((layer["NCCL_CONF_FILE"].value for layer in layers if "NCCL_CONF_FILE" in layer), "")
        user = chosen or _of_user()
        layers += [read(path) for path in (user, ADMINISTRATOR) if path]
    return _merge(layers)


def read(path: str) -> dict[str, Value]:
    """The variables of the file at `path`, read as NCCL does: no quotes, blanks or `~` mean anything.

    A file that is not there is empty.
    """
    try:
        content = Path(path).read_bytes()
    except (FileNotFoundError, ValueError):
        # A path with a zero byte in it is a ValueError.
        return {}
    except OSError as error:
        return {path: Value("", path, problem=f"cannot be read ({error.strerror}), so NCCL skips it", file=path)}
    found: dict[str, Value] = {}
    for number, text in lines(content):
        name, value = parted(path, number, text)
        # The first of two lines wins, since NCCL sets no variable that is set.
        found.setdefault(name, value)
    return found


def lines(content: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a file that say something, each with its number, as NCCL takes them."""
    for number, line in enumerate(content.split(b"\n"), 1):
        # To NCCL a line is a C string, which a zero byte ends.
        text = os.fsdecode(line.split(b"\0")[0])
        if not line.startswith(b"#") and (text.strip() or b"\0" in line):
            yield number, text


def parted(path: str, number: int, text: str) -> tuple[str, Value]:
    """The variable in line `number` of `path`; a line without one has its place as name, and a problem."""
    name, equals, value = text.partition("=")
    if name and equals:
        return name, Value(value, path, file=path)
    where = f"{path}:{number}"
    return where, Value(text, where, problem="has no variable and '=', so NCCL skips the line", file=path)


def _of_user() -> str:
    # As NCCL finds it: by the account, whatever HOME says.
    try:
        return str(Path(pwd.getpwuid(os.getuid()).pw_dir) / ".nccl.conf")
    except KeyError:
        return ""


def _from(source: str, values: Mapping[str, str]) -> dict[str, Value]:
    return {name: Value(value, source) for name, value in values.items()}


def _merge(layers: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    merged: dict[str, Value] = {}
    for layer in layers:
        for name, value in layer.items():
            first = merged.get(name)
            merged[name] = value if first is None else replace(first, over=(*first.over, value))
    return merged
