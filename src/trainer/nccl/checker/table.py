"""The variables that NCCL, Gloo and torch's process groups read: one table, and the names that people mistake for them.

It ends with NCCL 2.30.7 and torch 2.14.1. What a newer release adds is unknown here, and is not called wrong.
"""

from __future__ import annotations

import csv
import difflib
import re
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

NEWEST = (2, 30, 7)
"""the last release of NCCL that the table knows as a whole"""


class Variable(NamedTuple):
    """One row of the table; every cell is text, and an empty one says that there is nothing to say."""

    name: str
    """a name that ends in * stands for all that begin so"""
    reader: str
    """who reads it: nccl, torch, gloo, or other, which is a plugin, a driver or a build"""
    kind: str
    """how its text is read, such as integer, switch, word or interfaces"""
    allowed: str
    """words, or numbers and ranges of them, with | between"""
    default: str
    since: str
    """the first release that has it"""
    ended: str
    """removed, deprecated or renamed, and the release that did it"""
    instead: str
    """what took its place"""
    guide: str
    """whether its maker documents it: yes, no, or tuning for what only its source has"""
    same: str
    """between whom it must be equal: job, node or rank; log where a difference only shows in the log"""
    rule: str
    """the rule that judges its text, where that needs more than `kind` and `allowed`"""
    meaning: str

    def ended_in(self) -> tuple[str, tuple[int, ...]]:
        """The word and the release of `ended`, as ("removed", (2, 5)); without a release, all of them."""
        word, _, release = self.ended.partition(" ")
        return word, version(release)


class Misnomer(NamedTuple):
    """A name that people write and nobody reads."""

    name: str
    instead: str
    why: str


def version(text: str) -> tuple[int, ...]:
    """`2.18.1` as numbers; an empty text is the lowest of all."""
    return tuple(int(part) for part in text.split(".")) if text else ()


def latest(release: tuple[int, ...]) -> tuple[int, int, int]:
    """The last release that the table knows of a series, as (2, 27, 5) of (2, 27); a whole one as it is."""
    known = [version(row.since) for row in variables().values() if row.reader == "nccl"]
    series = [one for one in (*known, NEWEST) if one[: len(release)] == release]
    major, minor, patch, *_ = *max([*series, release]), 0, 0
    return major, minor, patch


@lru_cache(maxsize=1)
def variables() -> dict[str, Variable]:
    """All rows by name."""
    return {row[0]: Variable(*row) for row in _rows("variables.csv")}


@lru_cache(maxsize=1)
def misnomers() -> dict[str, Misnomer]:
    return {row[0]: Misnomer(*row) for row in _rows("misnomers.csv")}


def find(name: str) -> Variable | None:
    """The row of `name`, or that of the names that begin like it."""
    row = variables().get(name)
    if row is None and name.startswith(_beginnings()):
        row = next(variables()[f"{begin}*"] for begin in _beginnings() if name.startswith(begin))
    return row


def concerns(name: str) -> bool:
    """Whether `name` is a variable of the transport, or is meant to be one."""
    if name in variables() or name.startswith(_beginnings()) or _MEANT.match(name):
        return True
    return bool(_MISTYPED.match(name)) and _prefixed(name) in variables()


def nearest(name: str) -> str | None:
    """The known variable that somebody who wrote `name` is likely to have meant."""
    prefixed = _prefixed(name)
    if prefixed in variables():
        return prefixed
    # Names that took another's place are not offered.
    offered = [row.name for row in variables().values() if not row.ended and not row.name.endswith("*")]
    near = difflib.get_close_matches(prefixed, offered, n=1, cutoff=0.75)
    return near[0] if near else None


def _prefixed(name: str) -> str:
    # What is left of blanks, of a shell's export, and of a mistyped beginning.
    bare = name.strip().removeprefix("export ").strip().upper()
    return _MISTYPED.sub("NCCL_", bare)


@lru_cache(maxsize=1)
def _beginnings() -> tuple[str, ...]:
    return tuple(name[:-1] for name in variables() if name.endswith("*"))


_MISTYPED = re.compile(r"(?i)^N?C+L+_")
_MEANT = re.compile(r"(?i)\s*(export\s+)?(TORCH_)?NCCL_|TORCH_FR_|GLOO_")


def _rows(name: str) -> list[list[str]]:
    text = (files("trainer.nccl.checker") / "tables" / name).read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))[1:]
