"""NCCL's log, and the files it reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from trainer.nccl.checker import reading
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import variables

_FILES = {
    "NCCL_CONF_FILE": "NCCL passes over it in silence",
    "NCCL_TOPO_FILE": "NCCL passes over it in silence",
    "NCCL_GRAPH_FILE": "NCCL fails without it",
}
_LEVELS = "VERSION|WARN|INFO|ABORT|TRACE"
# A graph lists GPUs channel by channel, a topology once.
_GPU = re.compile(rb'<gpu\s+dev="(\d+)"')
_MOST_BYTES = 2**22


def _level(at: Situation) -> str:
    return (at.text("NCCL_DEBUG") or "").upper()


def _no_words(at: Situation) -> Iterator[Hit]:
    debug, parts = at.text("NCCL_DEBUG"), at.text("NCCL_DEBUG_SUBSYS")
    if debug is not None and not reading.one_of(debug, _LEVELS, any_case=True):
        better = "INFO" if debug.strip().upper() in ("DEBUG", "VERBOSE", "1", "TRUE", "ON", "INFO") else "WARN"
        yield hit("NCCL_DEBUG", better=better)
    if parts is None:
        return
    known = variables()["NCCL_DEBUG_SUBSYS"].allowed
    wrong = [word for word in parts.removeprefix("^").split(",") if not reading.one_of(word, known, any_case=True)]
    if wrong:
        lost = "the whole list" if at.since(2, 30, 7) else "them"
        yield hit(
            "NCCL_DEBUG_SUBSYS",
            wrong="has {words}, which is no part of NCCL, so that {lost} is passed over",
            instead="use a list of {known}, without blanks",
            words=listed(repr(word) for word in wrong),
            lost=lost,
            known=known.replace("|", ", "),
        )


def _log_without_level(at: Situation) -> Iterator[Hit]:
    if at.text("NCCL_DEBUG_SUBSYS") is not None and _level(at) not in ("INFO", "TRACE"):
        yield hit("NCCL_DEBUG_SUBSYS", level="INFO")
    path = at.text("NCCL_DEBUG_FILE")
    if path is None:
        return
    if not _level(at):
        yield hit("NCCL_DEBUG_FILE", level="WARN")
    if path.startswith("~"):
        yield hit("NCCL_DEBUG_FILE", wrong="begins with ~, which nobody expands", instead="write the whole path")
    elif at.context.local and not os.path.isdir(Path(path).parent):
        yield hit(
            "NCCL_DEBUG_FILE",
            wrong="lies in a folder that does not exist",
            instead="make the folder {folder}",
            folder=Path(path).parent,
        )
    lacking = [
        mark
        for mark, several in (("%h", at.several_nodes), ("%p", (at.context.processes or 1) > 1))
        if several and mark not in path
    ]
    if lacking:
        yield hit(
            "NCCL_DEBUG_FILE",
            wrong="has no {lacking}, so that processes write over each other's log",
            instead="write it as {better}",
            lacking=listed(lacking),
            better=".".join((path, *lacking)),
        )


def _long_log(at: Situation) -> Iterator[Hit]:
    if _level(at) in ("INFO", "TRACE") and not at.context.diagnosing:
        yield hit("NCCL_DEBUG")


def _no_file(at: Situation) -> Iterator[Hit]:
    for name, otherwise in _FILES.items():
        path = at.text(name)
        if path is None:
            continue
        if path.startswith("~"):
            yield hit(name, wrong="begins with ~, which NCCL does not expand", instead="write the whole path")
        elif at.context.local and not os.path.isfile(path):
            yield hit(name, otherwise=otherwise)
        elif at.context.local and at.context.gpus is not None and name != "NCCL_CONF_FILE":
            described = _gpus_in(Path(path))
            if described not in (0, at.context.gpus):
                yield hit(
                    name,
                    wrong="describes {described} GPUs, and this machine has {gpus}",
                    instead="remove it, or use the file of this kind of machine",
                    described=described,
                    gpus=at.context.gpus,
                )


def _gpus_in(path: Path) -> int:
    try:
        with path.open("rb") as opened:
            return len(set(_GPU.findall(opened.read(_MOST_BYTES))))
    except OSError:
        return 0


def _hidden(at: Situation) -> Iterator[Hit]:
    for name, value in at.values.items():
        for other in value.over:
            ours = value.source == "nccl.env" or value.source.startswith("preset")
            if ours and other.source.startswith("/") and other.value != value.value:
                yield hit(name, other=other.value, file=other.source)


RULES = (
    Rule(
        "L1",
        "error",
        ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"),
        _no_words,
        wrong="is no level of the log, which it switches off",
        instead="write {better}; there are VERSION, WARN, INFO, ABORT and TRACE",
        reason="NCCL says nothing of a word that it does not know, and then nothing at all.",
    ),
    Rule(
        "L2",
        "warning",
        ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_DEBUG"),
        _log_without_level,
        wrong="has no effect without NCCL_DEBUG={level}",
        instead="set NCCL_DEBUG={level}, or remove this",
        reason="These say what is logged and where; whether, NCCL_DEBUG says.",
    ),
    Rule(
        "L3",
        "warning",
        ("NCCL_DEBUG",),
        _long_log,
        wrong="logs every connection of every process",
        instead="use WARN, and INFO only to find a fault, with NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log",
        reason="Such a log is long, and has filled the buffers of whole jobs.",
    ),
    Rule(
        "L4",
        "error",
        tuple(_FILES),
        _no_file,
        wrong="is no file of this machine, and {otherwise}",
        instead="correct the path, or remove it",
        reason="What the file would say is missing, often unnoticed.",
    ),
    Rule(
        "L5",
        "warning",
        ("NCCL_*",),
        _hidden,
        wrong="wins over {other} in {file}",
        instead="ask who wrote that file, and set nccl.env if this value shall stay",
        reason="An administrator's value may be a fact of the network that the preset does not know.",
    ),
)
