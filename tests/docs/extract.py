"""What the pages hold: the commands in their fenced blocks, those in their text, and the rest of their code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A block of another language, or marked as `text`, holds no commands; everything else does.
SHELL = ("", "sh", "bash", "console")
FENCE = re.compile(r"^```([\w+-]*)$")


class Block(NamedTuple):
    language: str
    line: int
    """the number of its first line in the page"""
    lines: list[str]


class Command(NamedTuple):
    page: str
    line: int
    text: str
    shown: str | None
    """what the page says that it prints; None where it says nothing"""

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {self.text}"


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is None and fence:
            block = Block(fence[1], number + 1, [])
        elif block is not None and line == "```":
            yield block
            block = None
        elif block is not None:
            block.lines.append(line)
    assert block is None, f"the block that begins in line {block.line} does not end"


def prose(text: str) -> str:
    """A page without its fenced blocks, as many lines long."""
    lines = text.splitlines()
    for block in blocks(text):
        for number in range(block.line - 2, block.line + len(block.lines)):
            lines[number] = ""
    return "\n".join(lines)


def spans(text: str) -> Iterator[tuple[int, str]]:
    """Code in the text of a page, each with its line; a line break within it is a space."""
    told = prose(text)
    for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", told):
        yield told.count("\n", 0, found.start()) + 1, " ".join(found[1].split())


def in_blocks(page: Path) -> Iterator[Command]:
    """Every command of the page's blocks.

    In a block with a line that begins with `$ `, such lines are commands and the others what they print. In any other,
    each line is one. A backslash continues a line, and what follows two spaces explains it. What is exported holds for
    the rest of the block.
    """
    for block in blocks(page.read_text()):
        if block.language not in SHELL:
            continue
        session, exported = any(line.startswith("$ ") for line in block.lines), ""
        lines = [(number, line) for number, line in _joined(block) if line.strip()]
        while lines:
            number, line = lines.pop(0)
            shown = []
            while session and lines and not lines[0][1].startswith("$ "):
                shown.append(lines.pop(0)[1])
            text = re.split(r" {2,}", line.removeprefix("$ ").strip())[0]
            yield Command(page.name, number, exported + text, "\n".join(shown) if session else None)
            if text.startswith("export "):
                exported += f"{text} && "


def _joined(block: Block) -> Iterator[tuple[int, str]]:
    start, whole = block.line, ""
    for number, line in enumerate(block.lines, block.line):
        start = start if whole else number
        if line.endswith("\\"):
            whole += line[:-1].rstrip() + " "
            continue
        yield start, whole + (line.strip() if whole else line)
        whole = ""


def in_text(page: Path) -> Iterator[Command]:
    """Every whole command in the text of the page; one that an ellipsis ends is judged as far as it goes."""
    for line, code in spans(page.read_text()):
        text = code.removesuffix(" …")
        if re.match(r"(python|scripts/\S+|torchrun|srun) ", text) and not re.search(r"…|<", text):
            yield Command(page.name, line, text, None)
