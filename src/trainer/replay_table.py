"""Replay tables: what each layer of a model costs, as a CSV file that one machine records and another rehearses.

Columns: `layer`; `parameters`, the shapes of its tensors as in `64x3x7x7+64`, or nothing; `forward_ms`; `backward_ms`;
`activation_bytes`, the size of its output for one rank's share of a batch. Lines that start with # are comments.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from trainer.spec import ConfigError


class Row(NamedTuple):
    """One layer."""

    layer: str
    parameters: tuple[tuple[int, ...], ...]
    forward_ms: float
    backward_ms: float
    activation_bytes: int

    @property
    def numel(self) -> int:
        """The number of its parameters."""
        return sum(math.prod(shape) for shape in self.parameters)


COLUMNS = Row._fields


def read(path: Path, where: str) -> list[Row]:
    """The rows of a table. Raises ConfigError that names the line and the column of what cannot be read."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{where}: cannot read the replay table {path} ({error}); give the path of a CSV file"
        ) from None
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")]
    if not numbered or tuple(numbered[0][1].split(",")) != COLUMNS:
        raise ConfigError(f"{where}: {path} does not start with the columns {','.join(COLUMNS)}; add that line")
    rows = [_row(cells, f"{where}: {path}, line {number}") for number, cells in _cells(numbered[1:])]
    if not rows:
        raise ConfigError(f"{where}: {path} has no layers; add a line for each")
    return rows


def write(path: Path, rows: Iterable[Row], comments: Sequence[str]) -> None:
    """Write a table that `read` reads, with `comments` on top."""
    with open(path, "w", newline="") as stream:
        stream.writelines(f"# {comment}\n" for comment in comments)
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(COLUMNS)
        for row in rows:
            shapes = "+".join("x".join(map(str, shape)) for shape in row.parameters)
            table.writerow([row.layer, shapes, f"{row.forward_ms:.4g}", f"{row.backward_ms:.4g}", row.activation_bytes])


def _cells(numbered: Sequence[tuple[int, str]]) -> Iterable[tuple[int, list[str]]]:
    return ((number, next(csv.reader([line]))) for number, line in numbered)


def _row(cells: list[str], line: str) -> Row:
    if len(cells) != len(COLUMNS):
        raise ConfigError(f"{line}: {len(cells)} columns instead of {len(COLUMNS)}; write {','.join(COLUMNS)}")
    named = dict(zip(COLUMNS, cells, strict=True))

    def number(column: str, kind: type[int] | type[float]) -> float:
        try:
            value = kind(named[column])
        except ValueError:
            value = kind(-1)
        if not 0 <= value < math.inf:
            raise ConfigError(f"{line}, column {column}: {named[column]!r} is no number of at least 0; correct it")
        return value

    try:
        shapes = tuple(
            tuple(int(size) for size in shape.split("x")) for shape in named["parameters"].split("+") if shape
        )
    except ValueError:
        shapes = ((-1,),)
    if any(size < 1 for shape in shapes for size in shape):
        raise ConfigError(
            f"{line}, column parameters: {named['parameters']!r} is no list of shapes; write for example 64x3x7x7+64"
        )
    forward, backward = number("forward_ms", float), number("backward_ms", float)
    return Row(named["layer"], shapes, forward, backward, int(number("activation_bytes", int)))
