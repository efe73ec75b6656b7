"""The runs of a sweep in the order of their values: on the terminal, and in sweep.csv."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.report import units
from trainer.sweep.objective import missing
from trainer.sweep.options import Sweep
from trainer.sweep.result import Result, split, swept

NAME = "sweep.csv"
# Rows of the terminal's table; the file and the page have all.
SHOWN = 40
WIDTH = 160


class Entry(NamedTuple):
    job: str
    """the name of the run's folder in the sweep's"""
    place: int | None
    """1 is the best; None where it has no value"""
    settings: dict[str, str]
    """of the swept keys, as they were written; empty where the run did not name the key"""
    result: Result


class Ranking(NamedTuple):
    options: Sweep
    keys: list[str]
    """what was swept"""
    entries: list[Entry]
    """best first, then those without a value by their numbers"""

    @property
    def best(self) -> Entry | None:
        return self.entries[0] if self.entries and self.entries[0].place == 1 else None

    @property
    def nobody_wrote(self) -> str:
        """Why no run that was done has a value, in one line; empty where one has, or none was done."""
        done = [entry.result for entry in self.entries if entry.result.status == "done"]
        if not done or self.best is not None:
            return ""
        wrote = {name for result in done for name in result.metrics}
        reasons = {result.reason for result in done}
        why = (
            missing(self.options.objective, wrote)
            if self.options.objective not in wrote
            else " / ".join(sorted(reasons))
        )
        return f"sweep.objective: none of {len(done)} runs has a value: {why}"

    @property
    def code(self) -> int:
        """The exit code of the sweep: 0, 1 if a run failed, 2 if one was refused or none has a value."""
        found = {entry.result.status for entry in self.entries}
        return 2 if "refused" in found or self.nobody_wrote else int("failed" in found)


def rank(results: Mapping[str, Result], options: Sweep) -> Ranking:
    """Order runs, given by the names of their folders; equal values share a place."""
    keys = swept([result.overrides for result in results.values()])
    found = [Entry(job, None, _settings(result, keys), result) for job, result in results.items()]
    valued = [entry for entry in found if entry.result.value is not None]
    valued.sort(key=lambda entry: entry.result.value or 0.0, reverse=options.largest_first)
    values = [entry.result.value for entry in valued]
    ranked = [entry._replace(place=1 + values.index(entry.result.value)) for entry in valued]
    return Ranking(options, keys, [*ranked, *(entry for entry in found if entry.result.value is None)])


def _settings(result: Result, keys: Sequence[str]) -> dict[str, str]:
    given = dict(map(split, result.overrides))
    return {key: given.get(key, "") for key in keys}


def show(ranking: Ranking, title: str, console: Console | None = None) -> None:
    """Print the table."""
    table = Table(box=box.SIMPLE_HEAD)
    for column, justify in (("", "right"), ("run", "left"), *((key, "left") for key in ranking.keys)):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    table.add_column(ranking.options.title, justify="right")
    table.add_column("took", justify="right")
    table.add_column("")
    for entry in ranking.entries[:SHOWN]:
        result = entry.result
        said = "" if result.status == "done" and not result.reason else f"{result.status}: {result.reason}".rstrip(": ")
        cells = [
            "" if entry.place is None else str(entry.place),
            entry.job,
            *entry.settings.values(),
            "-" if result.value is None else units.short(result.value, 4),
            f"{result.seconds:.1f} s",
            said,
        ]
        # As text: a value may hold brackets, which would be read as markup.
        table.add_row(*map(Text, cells), style="bold" if entry.place == 1 else None)
    if left := len(ranking.entries) - SHOWN:
        table.caption = f"and {left} more" if left > 0 else None
    # A file has no width, and a table of reasons needs more than the usual guess.
    console = console or Console(width=None if sys.stdout.isatty() else WIDTH)
    # A title in the table would be broken at its width.
    console.print(Text(title), soft_wrap=True)
    console.print(table)


def as_csv(ranking: Ranking) -> str:
    """A row a run, with all its metrics."""
    metrics = sorted({name for entry in ranking.entries for name in entry.result.metrics})
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    title = ranking.options.title
    writer.writerow(["rank", "run", *ranking.keys, f"objective: {title}", "seconds", "status", "reason", *metrics])
    for entry in ranking.entries:
        result = entry.result
        # The csv module writes None as nothing.
        writer.writerow(
            [
                entry.place,
                entry.job,
                *entry.settings.values(),
                result.value,
                round(result.seconds, 3),
                result.status,
                result.reason,
                *(result.metrics.get(name) for name in metrics),
            ]
        )
    return stream.getvalue()


def write(ranking: Ranking, sweep: Path) -> Path:
    path = sweep / NAME
    path.write_text(as_csv(ranking), encoding="utf-8")
    return path
