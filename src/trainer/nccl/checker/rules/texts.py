"""What a variable's text is read as, by the table's kinds alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network

from trainer.nccl.checker import reading
from trainer.nccl.checker.finding import Severity, shortened
from trainer.nccl.checker.rule import Hit, Rule, hit
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import Variable, variables

_SUFFIX = {"k": 2**10, "m": 2**20, "g": 2**30}
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:%.\w]+\]|[\w.-]+):\d+")
_ONLY_ONE = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
_LONGEST_NUMBER = 20
_READERS = {"nccl": "NCCL", "torch": "torch", "gloo": "Gloo", "other": "its reader"}


def _rows(at: Situation) -> Iterator[tuple[Variable, str]]:
    for name in at.values:
        row, text = variables().get(name), at.text(name)
        if row is not None and text is not None:
            yield row, text


def _no_number(at: Situation) -> Iterator[Hit]:
    for row, text in _rows(at):
        if row.kind not in ("integer", "switch"):
            continue
        better = _meant_number(text)
        instead = f"write {better}" if better is not None else "write a plain number, or remove it"
        number = _number(row, text)
        if row.reader == "torch" and number is None:
            yield hit(row.name, wrong="is no number, at which torch raises an error", instead=instead)
        elif not _plain(row, text):
            yield hit(row.name, instead=instead, reader=_READERS[row.reader], number=number)
        elif number is None:
            yield hit(row.name, wrong="is too large a number, for which NCCL takes its default", instead="remove it")


def _number(row: Variable, text: str) -> int | None:
    return reading.stoi(text) if row.reader == "torch" else reading.number(text)


def _plain(row: Variable, text: str) -> bool:
    """Whether `text` is a number as a whole."""
    if row.reader == "torch":
        return re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) is not None
    return reading.is_number(text)


def _meant_number(text: str) -> str | None:
    """The number that somebody who wrote `text` is likely to have meant."""
    bare = text.strip().strip("'\"").strip().lower()
    if len(bare) > _LONGEST_NUMBER:
        return None
    sized = re.fullmatch(r"(\d+)\s*([kmg])(i?b)?", bare)
    if sized:
        return str(int(sized.group(1)) * _SUFFIX[sized.group(2)])
    if bare in ("true", "yes", "on", "t", "y", "enable", "enabled"):
        return "1"
    if bare in ("false", "no", "off", "f", "n", "disable", "disabled"):
        return "0"
    if re.fullmatch(r"0+\d+", bare):
        return str(int(bare))
    if re.fullmatch(r"\d+(\.\d+)?(e\+?\d{1,2})?", bare) and float(bare).is_integer():
        return str(int(float(bare)))
    return None


def _not_allowed(at: Situation) -> Iterator[Hit]:
    for row, text in _rows(at):
        wrong = None if row.rule else _judge(row, text)
        if wrong:
            instead = "write 1" if row.name in _ONLY_ONE else None
            severity: Severity = "warning" if row.kind == "switch" and row.name not in _ONLY_ONE else "error"
            default = f"; the default is {row.default}" if row.default else ""
            yield hit(row.name, severity, instead=instead, judged=wrong, default=default)


def _judge(row: Variable, text: str) -> str | None:
    """What is wrong with `text`, whatever other variables say; None for nothing."""
    if row.kind in ("integer", "switch"):
        # What a text that is no number is read as is told already.
        number = _number(row, text) if _plain(row, text) else None
        return None if number is None else _judge_number(row, number)
    if row.kind == "truth" and reading.truth(text) is None:
        return "is neither 0 nor 1, at which torch raises an error"
    words = row.allowed.replace("|", ", ")
    if row.kind in ("word", "any case") and not reading.one_of(text, row.allowed, row.kind == "any case"):
        return f"is none of {words}"
    if row.kind == "any case list":
        unknown = [one for one in text.split(",") if not reading.one_of(one.lstrip("^"), row.allowed, any_case=True)]
        return f"has {shortened(repr(unknown[0]))}, which is none of {words}" if unknown else None
    return _judge_form(row, text)


def _judge_number(row: Variable, number: int) -> str | None:
    if reading.within(number, row.allowed):
        return None
    if row.name in _ONLY_ONE:
        return "switches nothing off: only 1 does"
    if row.kind == "switch":
        return f"is taken for 1, since {number} is not 0"
    return f"is none of {reading.spoken(row.allowed)}"


def _judge_form(row: Variable, text: str) -> str | None:
    if row.kind == "address" and not _ADDRESS.fullmatch(text):
        return "is not of the form host:port"
    if row.kind == "subnet" and not _is_subnet(text):
        return "is no subnet of the form 10.0.0.0/16"
    if row.kind == "list" and (any(letter.isspace() for letter in text) or "" in text.split(",")):
        return "has a blank or an empty item in its list"
    if row.kind in ("text", "list") and text[0] == text[-1] and text[0] in "'\"":
        return "has quotation marks, which are taken as a part of it"
    if row.kind == "text" and row.reader != "other" and text != text.strip():
        return "has a blank at its end, which is taken as a part of it"
    return None


def _is_subnet(text: str) -> bool:
    try:
        return "/" in text and ip_network(text, strict=False) is not None
    except ValueError:
        return False


def _empty(at: Situation) -> Iterator[Hit]:
    for name, value in at.values.items():
        row = variables().get(name)
        if row is not None and row.reader == "nccl" and not value.value:
            yield hit(name)


RULES = (
    Rule(
        "C4",
        "error",
        ("NCCL_*", "TORCH_*", "GLOO_*"),
        _no_number,
        wrong="is read as {number} by {reader}",
        instead="",
        reason="Numbers are read up to the first character that is no digit, and a word is 0; nothing is said of it.",
    ),
    Rule(
        "value",
        "error",
        ("NCCL_*", "TORCH_*", "GLOO_*"),
        _not_allowed,
        wrong="{judged}",
        instead="correct or remove it{default}",
        reason="What is not understood is passed over in silence, or fails in the middle of the start.",
    ),
    Rule(
        "empty",
        "warning",
        ("NCCL_*",),
        _empty,
        wrong="has no effect, since nothing is the default",
        instead="give it a value, or remove it",
        reason="NCCL takes an empty variable for one that is not there.",
    ),
)
