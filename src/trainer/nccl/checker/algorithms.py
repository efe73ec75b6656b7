"""NCCL_ALGO and NCCL_PROTO: how they are written, and what they leave."""

from __future__ import annotations

from typing import NamedTuple

from trainer.nccl.checker.context import Context

FUNCTIONS = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
PROTOCOLS = frozenset({"ll", "ll128", "simple"})
POSSIBLE = {
    "broadcast": frozenset({"ring"}),
    "reduce": frozenset({"ring"}),
    "allgather": frozenset({"ring", "pat", "nvls", "collnetdirect"}),
    "reducescatter": frozenset({"ring", "pat", "nvls", "collnetdirect"}),
    "allreduce": frozenset({"tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree"}),
}
"""which algorithms there are for which function"""
_SINCE = {
    "ring": (2, 5),
    "tree": (2, 5),
    "collnetdirect": (2, 14),
    "collnetchain": (2, 14),
    "nvls": (2, 17),
    "nvlstree": (2, 18),
    "pat": (2, 23),
}


class Entry(NamedTuple):
    """One part between semicolons."""

    function: str | None
    """None is all functions"""
    forbids: bool
    words: tuple[str, ...]


def known(context: Context) -> frozenset[str]:
    """The algorithms that the installed NCCL has."""
    if context.nccl is None:
        return frozenset(_SINCE)
    words = {word for word, since in _SINCE.items() if context.nccl >= since}
    return frozenset(words | ({"collnet"} if context.nccl < (2, 14) else set()))


def parse(text: str) -> list[Entry]:
    """`[function:][^]word,word;…`, in any case."""
    entries = []
    for part in text.lower().split(";"):
        function, colon, words = part.rpartition(":")
        entries.append(
            Entry(function if colon else None, words.startswith("^"), tuple(words.removeprefix("^").split(",")))
        )
    return entries


def allowed(entries: list[Entry], function: str, all_words: frozenset[str]) -> frozenset[str]:
    """What `entries` leave of `all_words` for `function`: its own entry counts, else the one for all."""
    own = [entry for entry in entries if entry.function == function]
    rest = [entry for entry in entries if entry.function is None]
    for entry in (*own, *rest):
        return all_words - set(entry.words) if entry.forbids else all_words & set(entry.words)
    return all_words


def named(entries: list[Entry]) -> set[str]:
    """The words that are asked for."""
    return {word for entry in entries if not entry.forbids for word in entry.words}
