"""The command `preset`: saves runs as presets, and compares, checks and lists presets."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer import config
from trainer.doctor.wording import several
from trainer.preset import catalogue, check, difference, save, sources
from trainer.preset.sources import CONF, VARIABLE
from trainer.spec import ConfigError

# Columns of a table that nobody looks at.
WIDE = 240
DIRECTORY = "folder of presets, as in TRAINER_PRESETS: they lie in its folder experiment"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code: 0, 1 where two presets differ, 2 for what is wrong or cannot be done."""
    asked = _parser().parse_args(arguments)
    try:
        answer: int = asked.answer(asked)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception as error:  # whatever a preset that does not compose raises
        line = config.explain(error, [], CONF)
        if line is None:
            raise
        print(line, file=sys.stderr)
        return 2
    return answer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="preset", description="Experiments as files to share: experiment=<name>.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    saves = commands.add_parser("save", help="make a preset of a finished run")
    saves.add_argument(
        "run", metavar="RUN", type=Path, help="the run's folder, such as runs/digits/2026-11-29_18-15-04"
    )
    saves.add_argument("name", help="as in experiment=<name>; may have folders, as in team/h100_ib")
    saves.add_argument("--to", metavar="DIR", type=Path, help=f"a {DIRECTORY} (default: the trainer's own conf)")
    saves.add_argument("--when", metavar="TEXT", help="when to use it, in a line")
    saves.set_defaults(answer=_save)
    diffs = commands.add_parser("diff", help="say what differs between two presets or runs, after all defaults")
    diffs.add_argument("one", metavar="A", help="a preset's name, or a run's folder")
    diffs.add_argument("other", metavar="B", help="likewise")
    diffs.set_defaults(answer=_diff)
    checks = commands.add_parser("check", help="say which presets of a folder do not work; for a team's CI")
    checks.add_argument("dir", metavar="DIR", type=Path, help=f"a {DIRECTORY}")
    checks.add_argument("overrides", metavar="OPTION=VALUE", nargs="*", help="for each of them, such as data=synthetic")
    checks.set_defaults(answer=_check)
    lists = commands.add_parser("list", help="list the presets of this machine, and when to use them")
    lists.set_defaults(answer=_list)
    return parser


def _save(asked: argparse.Namespace) -> int:
    path = save.save(asked.run, asked.name, asked.to, asked.when)
    shared = asked.to is not None and asked.to.resolve() not in {CONF, *(one.folder for one in sources.shared())}
    print(path)
    print(f"{f'{VARIABLE}={asked.to} ' if shared else ''}python train.py experiment={asked.name}")
    # A run of an older version or of another machine may have had what this one has not.
    with check.including(asked.to or CONF):
        line = check.complaint(asked.name)
    if line is not None:
        print(f"As it stands it does not run here: {line}", file=sys.stderr)
    return 0


def _diff(asked: argparse.Namespace) -> int:
    found = difference.difference(difference.options_of(asked.one), difference.options_of(asked.other))
    if not found:
        print("no difference")
        return 0
    table = Table(box=None, pad_edge=False)
    for name in ("option", asked.one, asked.other):
        table.add_column(Text(name), overflow="fold")
    for row in found:
        table.add_row(*(Text(cell) for cell in row))
    _console().print(table)
    return 1


def _check(asked: argparse.Namespace) -> int:
    found, wrong = check.check(asked.dir, asked.overrides)
    for complaint in wrong:
        # The line on YAML that cannot be read names the file itself.
        print(f"{complaint.path}: {complaint.line.removeprefix(f'{complaint.path}: ')}")
    print(f"{several(len(found), 'preset')}, {len(wrong)} wrong")
    return 2 if wrong else 0


def _list(asked: argparse.Namespace) -> int:
    table = Table(box=None, pad_edge=False)
    for name in ("preset", "from", "when to use it"):
        table.add_column(name, overflow="fold", no_wrap=name == "preset")
    for preset in sources.everywhere():
        place = preset.source.name if preset.source.folder == CONF else str(preset.source.folder)
        table.add_row(preset.name, Text(place), Text(catalogue.when(preset.path)))
    _console().print(table)
    return 0


def _console() -> Console:
    """Rows that go to another program are not folded to the width of a terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
