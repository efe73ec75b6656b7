"""Names that nobody reads, not any more or not yet."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from trainer.nccl.checker import table
from trainer.nccl.checker.finding import Severity
from trainer.nccl.checker.rule import Hit, Rule, hit
from trainer.nccl.checker.situation import Situation

# Looking for what a name was meant for takes milliseconds, and more are no typing mistakes.
_MOST_SEARCHED = 20


def _release(at: Situation, row: table.Variable) -> tuple[int, ...] | None:
    """The installed release of who reads it."""
    return {"nccl": at.context.nccl, "torch": at.context.torch}.get(row.reader)


def _dotted(release: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in release)


def _unknown(at: Situation) -> Iterator[Hit]:
    searched = itertools.count()
    for name, value in at.values.items():
        if value.problem or table.find(name) is not None:
            continue
        misnomer = table.misnomers().get(name)
        near = None if misnomer or next(searched) >= _MOST_SEARCHED else table.nearest(name)
        if misnomer:
            use = "remove it" if misnomer.instead == "nothing" else "use {better}"
            yield hit(
                name,
                _severity(at, name),
                wrong="is read by nobody: {why}",
                instead=use,
                why=misnomer.why,
                better=misnomer.instead,
            )
        elif near and near == _bare(name):
            yield hit(
                name,
                _severity(at, name),
                wrong="has a name of which {begin!r} is a part, so nobody reads it",
                instead="write {near}=…",
                near=near,
                begin=name.replace(near, "", 1),
            )
        else:
            foreign = _foreign(name, value.source)
            elsewhere = "remove it, or set it in your own environment" if value.source == "nccl.env" else None
            instead = "did you mean {near}?" if near else elsewhere if foreign else None
            yield hit(name, _severity(at, name), wrong=foreign, instead=instead, near=near)


def _foreign(name: str, source: str) -> str | None:
    """What is wrong with the name of a variable that others may well read."""
    if table.concerns(name):
        return None
    theirs = "is none of the transport's variables (NCCL_, TORCH_NCCL_, GLOO_ …)"
    return f"{theirs}, which alone nccl.env is for" if source == "nccl.env" else theirs


def _severity(at: Situation, name: str) -> Severity:
    # The table is whole up to its last NCCL, and from memory in part for torch and Gloo.
    newer = at.context.nccl is not None and at.context.nccl > table.NEWEST
    return "error" if _bare(name).upper().startswith("NCCL_") and not newer else "warning"


def _bare(name: str) -> str:
    return name.strip().removeprefix("export ").strip()


def _ended(at: Situation, how: str) -> Iterator[tuple[table.Variable, tuple[int, ...]]]:
    for name in at.values:
        row = table.variables().get(name)
        if row is None or at.text(name) is None:
            continue
        word, release = row.ended_in()
        installed = _release(at, row)
        if word == how and (installed is None or installed >= release):
            yield row, release


def _removed(at: Situation) -> Iterator[Hit]:
    for row, release in _ended(at, "removed"):
        instead = f"remove it, or see what {row.instead} can do" if row.instead else None
        reader = "torch" if row.reader == "torch" else "NCCL"
        yield hit(
            row.name,
            "error" if row.reader == "nccl" else "warning",
            instead=instead,
            reader=reader,
            release=_dotted(release),
        )


def _deprecated(at: Situation) -> Iterator[Hit]:
    for row, release in _ended(at, "deprecated"):
        since = f" since {_dotted(release)}" if release else ""
        instead = f"remove it, or use {row.instead}" if row.instead else None
        yield hit(row.name, instead=instead, since=since)


def _newer(at: Situation) -> Iterator[Hit]:
    for name in at.values:
        row = table.variables().get(name)
        if row is None or at.text(name) is None:
            continue
        installed, since = _release(at, row), table.version(row.since)
        if installed is not None and installed < since:
            reader = "torch" if row.reader == "torch" else "NCCL"
            yield hit(name, reader=reader, installed=_dotted(installed), since=row.since)


def _bad_lines(at: Situation) -> Iterator[Hit]:
    for name, value in at.values.items():
        if value.problem:
            yield hit(name, problem=value.problem)


RULES = (
    Rule(
        "unknown",
        "error",
        ("*",),
        _unknown,
        wrong="is no variable that anybody reads",
        instead="remove it, or correct its name",
        reason="A name with a mistake in it is a setting that has no effect, and nothing says so.",
    ),
    Rule(
        "removed",
        "error",
        ("*",),
        _removed,
        wrong="has no effect: {reader} {release} removed it",
        instead="remove it",
        reason="Recipes outlive the releases that they were written for.",
    ),
    Rule(
        "deprecated",
        "warning",
        ("*",),
        _deprecated,
        wrong="is out of use{since}",
        instead="remove it",
        reason="It still works, and a later release may drop it.",
    ),
    Rule(
        "newer",
        "warning",
        ("*",),
        _newer,
        wrong="has no effect: {reader} {installed} does not know it, which came with {since}",
        instead="update {reader}, or remove it",
        reason="What a release does not know it passes over.",
    ),
    Rule(
        "file",
        "warning",
        ("*",),
        _bad_lines,
        wrong="{problem}",
        instead="write <NAME>=<value> without quotes and blanks, and let every user read the file",
        reason="A setting that is written but not read misleads whoever looks for it.",
    ),
)
