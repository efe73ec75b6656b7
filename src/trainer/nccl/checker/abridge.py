"""A file that is none of variables has a finding for every line; a few of a kind say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainer.nccl.checker.finding import Finding
from trainer.nccl.checker.sources import Value

MOST = 10
"""findings of one rule from one file"""


def abridged(found: Sequence[Finding], values: Mapping[str, Value]) -> list[Finding]:
    """`found` in its order; what a rule finds in one file beyond `MOST` becomes one finding that counts the rest."""
    places = [(one.rule, values[one.variable].file if one.variable in values else "") for one in found]
    counts, seen, kept = Counter(places), Counter[tuple[str, str]](), []
    for one, place in zip(found, places, strict=True):
        seen[place] += 1
        file = place[1]
        if not file or seen[place] <= MOST:
            kept.append(one)
        elif seen[place] == MOST + 1:
            rest = f"has {counts[place] - MOST} more of this kind"
            instead = "correct those above, and see whether it is the file that is meant"
            kept.append(replace(one, variable=file, value="", source=file, wrong=rest, instead=instead))
    return kept
