"""The command `scripts/bench/run`: which tables, how thoroughly, and where they go."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import torch

from scripts.bench import document
from scripts.bench.case import Case
from scripts.bench.lab import BenchError, measure
from scripts.bench.table import Table, case_table
from trainer.spec import ConfigError, did_you_mean

NAMES = sorted(path.stem for path in (Path(__file__).parent / "tables").glob("*.py") if path.stem != "__init__")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables asked for; the exit code: 0, 1 where one could not be measured, 2 where it cannot be."""
    options = _parser().parse_args(arguments)
    if options.list:
        for name in NAMES:
            print(f"{name:10} {_module(name).__doc__}")
        return 0
    if options.name is None:
        print(f"run: no table is named{did_you_mean('', [*NAMES, 'all'])}", file=sys.stderr)
        return 2
    if options.name not in [*NAMES, "all"]:
        print(f"run: there is no table '{options.name}'{did_you_mean(options.name, [*NAMES, 'all'])}", file=sys.stderr)
        return 2
    if options.write and options.quick:
        print("run: --write puts down what docs/benchmarks.md claims; leave out --quick", file=sys.stderr)
        return 2

    measured: dict[str, list[Table]] = {}
    code = 0
    for name in NAMES if options.name == "all" else [options.name]:
        print(f"## {name}\n")
        tables = measured.setdefault(name, [])
        try:
            for table in tables_of(name, options):
                print(table.markdown(), flush=True)
                tables.append(table)
        except (BenchError, ConfigError) as error:
            print(error, file=sys.stderr)
            code = max(code, 2 if isinstance(error, ConfigError) else 1)
            continue
        if options.write:
            document.write(name, document.block(tables, _machine()))
            if hasattr(_module(name), "draw"):
                _module(name).draw(tables, document.PATH.parent)
    print(f"Measured on {_machine()}.")
    if options.json:
        plain = {name: [table.plain() for table in tables] for name, tables in measured.items()}
        options.json.write_text(json.dumps({"machine": _machine(), "tables": plain}, indent=1) + "\n")
    return code


def tables_of(name: str, options: argparse.Namespace) -> Iterator[Table]:
    """Measure the cases of one table, or let it measure itself. May raise BenchError or ConfigError."""
    module = _module(name)
    if hasattr(module, "measure"):
        yield from module.measure(options.quick)
        return
    cases = chosen(module.CASES, options)
    if not cases:
        print(f"{name}: nothing in it is quick; leave out --quick", file=sys.stderr)
    for case in cases:
        yield case_table(case, measure(case))


def chosen(cases: Sequence[Case], options: argparse.Namespace) -> list[Case]:
    """The cases on the network that was asked for; with --quick fewer, and fewer rounds of each."""
    asked = options.hosts is not None or options.rate is not None
    if asked:
        changed = [
            dataclasses.replace(case, ranks=options.hosts or case.ranks, rate=options.rate or case.rate or "none")
            for case in cases
        ]
        # Cases that differed in nothing but the network have become one.
        cases = list({(case.title, case.overrides, case.network): case for case in reversed(changed)}.values())[::-1]
    return [case.shortened() for case in cases if case.quick or asked] if options.quick else list(cases)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"scripts.bench.tables.{name}")


def _machine() -> str:
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ", no GPU"
    return f"{os.cpu_count()} cores of {platform.machine()}{gpu}, torch {torch.__version__}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("run", description="Measure the tables of docs/benchmarks.md, side by side.")
    parser.add_argument("name", nargs="?", help=f"{', '.join(NAMES)}, or all")
    parser.add_argument("--list", action="store_true", help="say what each table shows")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds: a look at all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number there")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md")
    parser.add_argument("--hosts", type=int, metavar="N", help="hosts of the lab, instead of what each case says")
    parser.add_argument("--rate", metavar="R", help="rate of each link, as tc writes it, or none; instead likewise")
    return parser
