"""The command `nccl`: checks variables, explains one, and shows a preset."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainer.nccl import facts, machine, plugins
from trainer.nccl.checker import explain, recipe, sources, table
from trainer.nccl.checker.abridge import abridged
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.finding import Finding, shortened
from trainer.nccl.checker.sources import Value


class Unanswered(Exception):
    """What is asked for is not known or cannot be read; the reason is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code: 0 for nothing wrong, 1 for warnings, 2 for errors and for what is not known."""
    asked = _parser().parse_args(arguments)
    try:
        text, code = asked.answer(asked)
    except Unanswered as reason:
        print(reason, file=sys.stderr)
        return 2
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Who reads no further, as `head`, has what he wants. At its exit Python would complain of what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nccl", description="Checks what NCCL, Gloo and torch would read.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    checks = commands.add_parser("check", help="say what is wrong with the environment, or with a file of variables")
    checks.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="lines of <NAME>=<value>, which NCCL takes as they stand, or of a shell's export, or what `env` prints;"
        " without it this environment and NCCL's own files",
    )
    checks.add_argument("--nodes", type=_count, help="how many machines there are")
    checks.add_argument("--processes", type=_count, help="how many processes a machine has")
    checks.add_argument("--net", choices=("ib", "roce", "ethernet", "efa"), help="the network between machines")
    checks.add_argument("--nccl", type=_version, metavar="VERSION", help="NCCL's release, as 2.27 (default: newest)")
    checks.add_argument("--json", action="store_true", help="print a list of findings for programs")
    checks.set_defaults(answer=_check)
    explains = commands.add_parser("explain", help="say what a variable is, and what is looked at")
    explains.add_argument("name", metavar="NAME", help="such as NCCL_IB_GID_INDEX")
    explains.set_defaults(answer=_explain)
    shows = commands.add_parser("show", help="print a preset's variables, and why it sets them")
    shows.add_argument("preset", metavar="PRESET", help="such as ib")
    shows.set_defaults(answer=_show)
    return parser


def _count(text: str) -> int:
    # More digits than any cluster needs are none that int() reads.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"{shortened(text)!r} is no count; write 1 or more")
    return int(text)


def _version(text: str) -> tuple[int, int, int]:
    parts = text.split(".")
    if not (2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no release of NCCL; write it as 2.27 or 2.27.5")
    return table.latest(table.version(text))


def _check(asked: argparse.Namespace) -> tuple[str, int]:
    context = Context(nodes=asked.nodes, processes=asked.processes, net=asked.net, nccl=asked.nccl)
    if asked.file is None:
        values: Mapping[str, Value] = sources.gather(os.environ, {}, {})
        context = _here(context)
    else:
        written = _read(asked.file)
        values = {name: value for name, value in written.items() if value.problem or recipe.meant(name)}
        plugin = plugins.find({name: value.value for name, value in written.items()})
        context = dataclasses.replace(context, plugin=plugin)
    found = check(values, context)
    code = {"error": 2, "warning": 1}[found[0].severity] if found else 0
    if asked.json:
        return json.dumps([{**dataclasses.asdict(one), "line": one.line()} for one in found], indent=2), code
    return _told(found, values), code


def _read(path: Path) -> dict[str, Value]:
    named = "name a file of <NAME>=<value> lines"
    try:
        return recipe.read(path)
    except (FileNotFoundError, ValueError):
        # A path with a zero byte in it is a ValueError.
        raise Unanswered(f"nccl: there is no file {shortened(str(path))}; {named}") from None
    except IsADirectoryError:
        raise Unanswered(f"nccl: {shortened(str(path))} is a folder; {named}") from None
    except OSError as error:
        raise Unanswered(f"nccl: {shortened(str(path))} cannot be read ({error.strerror}); {named}") from None


def _here(context: Context) -> Context:
    """With what this machine tells without any library but NVML's."""
    seen = machine.see(context.nodes or 1, context.processes or 1, None)
    return dataclasses.replace(context, **facts.of(seen))


def _told(found: Sequence[Finding], values: Mapping[str, Value]) -> str:
    told = [f"{one.severity}: {one.line()}\n  {one.reason} ({one.rule})" for one in abridged(found, values)]
    errors = sum(one.severity == "error" for one in found)
    numbers = (("variable", len(values)), ("error", errors), ("warning", len(found) - errors))
    told.append(", ".join(f"{number} {what}{'' if number == 1 else 's'}" for what, number in numbers))
    return "\n".join(told)


def _explain(asked: argparse.Namespace) -> tuple[str, int]:
    text = explain.explain(asked.name)
    if text is None:
        raise Unanswered(explain.unknown(asked.name))
    return text, 0


def _show(asked: argparse.Namespace) -> tuple[str, int]:
    # Only this command needs a library, which a bare Python may lack.
    from trainer.nccl.checker import preset

    known = preset.presets()
    if asked.preset not in known:
        near = difflib.get_close_matches(asked.preset, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
        raise Unanswered(f"nccl: there is no preset {asked.preset}; {hint}")
    shown = preset.read(asked.preset)
    told = [f"{shown.name}: {shown.what}"]
    for name, value, why in shown.variables:
        row = table.find(name)
        told.append(f"  {name}={value}\n    {why or (row.meaning if row else '')}")
    if not shown.variables:
        told.append("  sets nothing")
    if shown.notes:
        told.append(f"  {shown.notes}")
    return "\n".join(told), 0
