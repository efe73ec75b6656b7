"""What is known of one variable, in a few lines."""

from __future__ import annotations

import string

from trainer.nccl.checker import reading, table
from trainer.nccl.checker.catalogue import RULES
from trainer.nccl.checker.rule import Rule, listed

_READERS = {"nccl": "NCCL", "torch": "torch", "gloo": "Gloo", "other": "a plugin, a driver or a build"}
_SAME = {
    "job": "on all ranks",
    "node": "on all ranks of a node",
    "rank": "nowhere: every rank may have its own",
    "log": "nowhere, but the log is of few ranks then",
}
_KINDS = {
    "integer": "a number",
    "switch": "0 or 1, read as a number",
    "truth": "0 or 1, yes or no, true or false",
    "level": "a distance, in capitals: {allowed}",
    "word": "one of {allowed}, exactly so",
    "any case": "one of {allowed}",
    "any case list": "a list of {allowed}; ^ before it forbids them",
    "algorithms": "[function:][^]list[;…] of {allowed}",
    "protocols": "[function:][^]list[;…] of {allowed}",
    "policies": "one of {allowed}, or several with | between",
    "interfaces": "[^][=]name,name without blanks",
    "devices": "[^][=]device[:port],device without blanks",
    "names": "whole names of interfaces",
    "list": "names with commas and no blanks between",
    "address": "host:port",
    "subnet": "a subnet, as 10.0.0.0/16",
    "text": "a text, taken as it stands",
}


def explain(name: str) -> str | None:
    """What `name` is, which values it takes, and which rules look at it; None for a name that nobody reads."""
    row = table.find(name)
    if row is None:
        return None
    lines = [f"{row.name}: {row.meaning}", *_facts(row)]
    rules = [rule for rule in RULES if rule.concerns(name) and not _of_all(rule)]
    lines += [f"  {rule.name} ({rule.severity}){_of(rule, row.name)}: {_sentence(rule)}" for rule in rules]
    return "\n".join(lines)


def unknown(name: str) -> str:
    """That nobody reads `name`, and which one may be meant."""
    misnomer = table.misnomers().get(name.strip().upper())
    if misnomer:
        instead = "remove it" if misnomer.instead == "nothing" else f"use {misnomer.instead}"
        return f"{name}: is read by nobody, {misnomer.why}; {instead}"
    near = table.nearest(name)
    return f"{name}: is no variable that anybody reads; " + (f"did you mean {near}?" if near else "correct its name")


def _facts(row: table.Variable) -> list[str]:
    word, release = row.ended_in()
    ended = f"{word} {'.'.join(str(part) for part in release)}".strip()
    facts = [
        ("read by", _READERS[row.reader]),
        ("values", _values(row)),
        ("default", row.default),
        ("since", f"{_READERS[row.reader]} {row.since}" if row.since else ""),
        (ended, f"{row.instead} took its place" if row.instead else "nothing took its place") if ended else ("", ""),
        ("equal", _SAME.get(row.same, "")),
        ("guide", "in its source only, no guide" if row.guide == "tuning" else ""),
    ]
    return [f"  {what}: {fact}" for what, fact in facts if fact]


def _values(row: table.Variable) -> str:
    if row.kind == "integer" and row.allowed:
        return f"a number: {reading.spoken(row.allowed)}"
    return _KINDS[row.kind].format(allowed=row.allowed.replace("|", ", "))


def _of_all(rule: Rule) -> bool:
    return any(one.endswith("*") and one.count("_") < 2 for one in rule.variables)


def _of(rule: Rule, name: str) -> str:
    return "" if rule.variables == (name,) else f" of {listed(rule.variables)}"


def _sentence(rule: Rule) -> str:
    """The rule's own words, with what is filled in shown as <name>."""
    parts = string.Formatter().parse(f"{rule.wrong}; {rule.instead}")
    return "".join(text + (f"<{field}>" if field else "") for text, field, _, _ in parts)
