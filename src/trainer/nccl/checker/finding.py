"""What the checker says of a variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.nccl.checker.table import concerns

Severity = Literal["error", "warning"]
"""an error stops a run; a warning is printed once"""
UNSET = "unset"
"""the source of a variable that nobody set, and that is missed"""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and what to type instead."""

    rule: str
    """the rule's name, such as T1"""
    severity: Severity
    variable: str
    """the variable, or `<path>:<line>` for a line of a file that holds none"""
    value: str
    """its value as it was written"""
    source: str
    """who set it: environment, nccl.env, preset, a file's path, or unset"""
    wrong: str
    instead: str
    reason: str
    """why it matters, in a sentence"""

    def line(self) -> str:
        """`NCCL_X=value (source): what is wrong; what to type instead`, always one line."""
        return f"{self._where()}: {shortened(self.wrong, 400)}; {shortened(self.instead, 400)}"

    def _where(self) -> str:
        if self.variable == self.source:
            return shown(self.variable)
        if self.source == UNSET:
            return f"{shown(self.variable)} (unset)"
        return f"{assignment(self.variable, self.value)} ({shown(self.source)})"


def assignment(name: str, value: str) -> str:
    """`name=value` in one line; of what is none of the transport's only the beginning, since nobody looks for it."""
    return f"{shown(name)}={shortened(value, 120 if concerns(name) else 60)}"


def shown(text: str) -> str:
    """`text` in one line: what a terminal would not print as a character is written as an escape."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def shortened(text: str, most: int = 120) -> str:
    """`text` in one line, of which no more than `most` characters are shown."""
    line = shown(text)
    return line if len(line) <= most else f"{line[:most]}… ({len(text)} characters)"
