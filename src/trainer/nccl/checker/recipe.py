"""A file of variables as people keep them: lines as NCCL takes them, and what a shell exports."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from trainer.nccl.checker import sources
from trainer.nccl.checker.sources import Value
from trainer.nccl.checker.table import concerns

_STATEMENT = re.compile(r"\s*(export|(declare|typeset)\s+-\w*x\w*)\s")
_MENTIONED = re.compile(r"(?i)(?<![a-z0-9_])(NC+L+|GLOO|TORCH_NCCL|TORCH_FR)_")
# As bash writes a value with more than one line.
_ESCAPED = re.compile(r"(?<==)\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
# Certificates are values of some dozens of lines.
_MOST_LINES = 200


def read(path: Path) -> dict[str, Value]:
    """The variables of the file at `path`, and its lines that hold none, whoever may read them; raises OSError.

    What a shell exports is read as a shell does, without what it would put in for $, and its last assignment counts.
    Every other line is taken as it stands. Lines after another program's variable are the rest of its value.
    """
    numbered, found = list(sources.lines(path.read_bytes())), dict[str, Value]()
    at, reach, ours = 0, _MOST_LINES, True
    while at < len(numbered):
        number, text = numbered[at]
        if _STATEMENT.match(text):
            words, used = _statement([line for _, line in numbered[at : at + reach]])
            # Behind a quotation mark that nobody closes there is no telling where statements end.
            reach = reach if used else 1
            at += max(used, 1)
            found |= _assigned(str(path), number, words)
            continue
        at += 1
        name, value = sources.parted(str(path), number, text)
        if not value.problem:
            found.setdefault(name, value)
            ours = meant(name)
        elif ours or _MENTIONED.search(text):
            found[name] = value
    return found


def meant(name: str) -> bool:
    """Whether `name`, as it stands in a file, is a variable of the transport, or is meant to be one."""
    return concerns(name) or (not name.isidentifier() and bool(_MENTIONED.search(name)))


def _statement(lines: Sequence[str]) -> tuple[list[str], int]:
    """The words of the statement that begins `lines`, and of how many lines it is; 0 where it does not end."""
    for count in range(1, len(lines) + 1):
        try:
            return _words("\n".join(lines[:count])), count
        except ValueError:
            continue
    return lines[0].split(), 0


def _words(text: str) -> list[str]:
    plain = _ESCAPED.sub(lambda found: shlex.quote(_unescaped(found[1])), text.replace("\\\n", ""))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|")
    # To a shell, the end of a line as Windows writes it is a part of the value.
    lexer.whitespace, lexer.whitespace_split = " \t\n", True
    return list(lexer)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _LETTERS.get(found[1], found[1]), text, flags=re.DOTALL)


def _assigned(path: str, number: int, words: Sequence[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name and equals:
            found[name] = Value(value, path, file=path)
        elif equals and _MENTIONED.search(" ".join(words)):
            where = f"{path}:{number}"
            found[where] = Value(" ".join(words), where, problem="has a blank before '=', at which a shell fails")
    return found
