"""Texts as NCCL reads them, which is hardly ever as they were meant where they are not exactly right."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import NamedTuple

_NUMBER = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_LIMIT = 2**63
_MOST_DIGITS = 19
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""the words for a distance, in the order in which they grow"""
_NUMBERED = ("LOC", "PIX", "PXB", "PHB", "SYS")


def number(text: str) -> int | None:
    """`text` as C's strtoll reads it, with nothing asked about what follows the digits: `4M` is 4, `true` is 0.

    None is a text that is empty or too large, for which NCCL takes its default.
    """
    if not text:
        return None
    match = _NUMBER.match(text)
    if match is None:
        return 0
    sign, digits = match.groups()
    if digits[0] != "0" and len(digits) > _MOST_DIGITS:
        return None
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10)
    value = -value if sign == "-" else value
    return value if -_LIMIT <= value < _LIMIT else None


def is_number(text: str) -> bool:
    """Whether `text` is one number from its first to its last character, and means what it seems to."""
    match = _NUMBER.match(text)
    if match is None or text[match.end() :].strip(" \t"):
        return False
    digits = match.group(2)
    return digits == "0" or digits[0] != "0" or digits[1:2] in ("x", "X")


def stoi(text: str) -> int | None:
    """`text` as torch reads a number: None where it raises an error."""
    match = re.match(r"\s*([+-]?)0*([0-9]+)", text)
    if match is None or len(match.group(2)) > _MOST_DIGITS:
        return None
    value = int("".join(match.groups()))
    return value if -(2**31) <= value < 2**31 else None


def truth(text: str) -> bool | None:
    """`text` as torch reads a switch: None where it raises an error."""
    return {"1": True, "y": True, "yes": True, "t": True, "true": True}.get(
        text.lower(), False if text.lower() in ("0", "n", "no", "f", "false") else None
    )


def level(text: str, words: bool = True) -> str | None:
    """The distance that `text` stands for; None where NCCL passes it over. `words` came with NCCL 2.6."""
    if words and text in LEVELS:
        return text
    if words and not text[:1].isdigit():
        return None
    value = number(text) or 0
    return _NUMBERED[min(max(value, 0), 4)]


def within(value: int, allowed: str) -> bool:
    """Whether `value` is one of `allowed`, numbers and ranges such as `-1|1..64`; an empty text allows all."""
    if not allowed:
        return True
    for part in allowed.split("|"):
        low, dots, high = part.partition("..")
        if value == int(low) if not dots else int(low) <= value and (not high or value <= int(high)):
            return True
    return False


def spoken(allowed: str) -> str:
    """`-1|1..64|100..` in words."""
    parts = (part.partition("..") for part in allowed.split("|"))
    return ", ".join(f"{low} to {high}" if high else f"{low} and more" if dots else low for low, dots, high in parts)


def one_of(text: str, allowed: str, any_case: bool) -> bool:
    """Whether `text` is one of the words of `allowed`, in which * stands for anything."""
    if any_case:
        text, allowed = text.upper(), allowed.upper()
    return any(fnmatchcase(text, word) for word in allowed.split("|"))


class Names(NamedTuple):
    """A list such as `^=eth0,eth1`: which interfaces or devices NCCL takes."""

    exclude: bool
    exact: bool
    items: tuple[str, ...]

    def selects(self, name: str) -> bool:
        return self.matches(name) != self.exclude

    def matches(self, name: str) -> bool:
        """Whether one of the items names `name`, wholly or as its beginning."""
        return any(name == item if self.exact else name.startswith(item) for item in self.bare())

    def bare(self) -> tuple[str, ...]:
        """The items without port, rail and plane."""
        return tuple(item.partition(":")[0] for item in self.items)

    def text(self) -> str:
        """As it is written."""
        return f"{'^' if self.exclude else ''}{'=' if self.exact else ''}{','.join(self.items)}"


def names(text: str) -> Names:
    exclude = text.startswith("^")
    rest = text[exclude:]
    exact = rest.startswith("=")
    return Names(exclude, exact, tuple(item for item in rest[exact:].split(",") if item))


def fault(text: str) -> tuple[str, str] | None:
    """What is wrong with how the list `text` is written, and how it is written right; None for nothing."""
    if any(letter.isspace() for letter in text):
        return "has a blank, which becomes part of a name", "".join(text.split())
    if text[:1] in ("'", '"') or text[-1:] in ("'", '"'):
        return "has quotation marks, which become part of a name", text.strip("'\"")
    if text.startswith("=^"):
        return "has = before ^, so ^ becomes part of a name", f"^={text[2:]}"
    exclude, exact, items = names(text)
    if any(item[0] in "^=" for item in items):
        plain = ",".join(item.lstrip("^=") for item in items)
        mark = "^" * exclude + "=" * exact
        return "has ^ or = within the list, where they become part of a name", (mark or "=") + plain
    if len(items) != text[exclude + exact :].count(",") + 1:
        return "has an empty item", names(text).text() if items else ""
    return None
