"""What a rule is: what it says, as data, and the small function that looks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trainer.nccl.checker.finding import UNSET, Finding, Severity
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import find


class Hit(NamedTuple):
    """A rule that applies: to which variable, and what to fill into its sentences."""

    variable: str
    words: dict[str, object]
    severity: Severity | None = None
    """in place of the rule's own"""
    wrong: str | None = None
    instead: str | None = None


def hit(
    variable: str,
    severity: Severity | None = None,
    wrong: str | None = None,
    instead: str | None = None,
    **words: object,
) -> Hit:
    return Hit(variable, words, severity, wrong, instead)


def listed(names: Iterable[str]) -> str:
    """`A, B and C`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True)
class Rule:
    """One thing that may be wrong. `{…}` in its sentences is filled in by what `look` finds."""

    name: str
    """a letter for what it is about, and a number; a word for what holds of every variable"""
    severity: Severity
    variables: tuple[str, ...]
    """those that it looks at; one that ends in * is all that begin so"""
    look: Callable[[Situation], Iterator[Hit]]
    wrong: str
    instead: str
    reason: str

    def concerns(self, name: str) -> bool:
        return any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in self.variables)

    def findings(self, at: Situation) -> Iterator[Finding]:
        for found in self.look(at):
            value = at.values.get(found.variable)
            # What is no variable, such as /dev/shm, is its own source.
            source = value.source if value else UNSET if find(found.variable) else found.variable
            yield Finding(
                rule=self.name,
                severity=found.severity or self.severity,
                variable=found.variable,
                value=value.value if value else "",
                source=source,
                wrong=(found.wrong or self.wrong).format(**found.words),
                instead=(found.instead or self.instead).format(**found.words),
                reason=self.reason,
            )
