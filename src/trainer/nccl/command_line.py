"""`nccl.env.NCCL_X=value` on the command line: a new variable without Hydra's plus, its value taken as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable

VARIABLE = re.compile(r"(?:\+{0,2})(nccl\.env\.\w+)=(.*)", re.DOTALL)
MULTIRUN = ("-m", "--multirun")


def as_text(arguments: Iterable[str]) -> list[str]:
    """`arguments` in which every value of a variable is quoted for Hydra, which would make `1` a number.

    In a sweep a comma parts the values, so one with a comma is left to Hydra's own grammar.
    """
    words = list(arguments)
    sweeps = any(word in MULTIRUN for word in words)
    return [_as_text(word, sweeps) for word in words]


def _as_text(word: str, sweeps: bool) -> str:
    found = VARIABLE.fullmatch(word)
    if found is None:
        return word
    key, value = found.groups()
    if not (sweeps and "," in value) and not re.fullmatch(r"'.*'|\".*\"", value, re.DOTALL):
        # Inside quotes Hydra reads backslashes before a quote, and at the end.
        value = "'" + re.sub(r"(\\*)('|$)", lambda part: part[1] * 2 + ("\\'" if part[2] else ""), value) + "'"
    return f"++{key}={value}"
