"""The command `nccl`: checks variables, explains one, and shows a preset."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from trainer.nccl import adapters, interfaces
from trainer.nccl.checker import explain, sources, table
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context, Device
from trainer.nccl.checker.finding import Finding
from trainer.nccl.checker.sources import Value


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; the exit code: 0 for nothing wrong, 1 for warnings, 2 for errors and for what is not known."""
    asked = _parser().parse_args(arguments)
    answer: int = asked.answer(asked)
    return answer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nccl", description="Checks what NCCL, Gloo and torch would read.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    checks = commands.add_parser("check", help="say what is wrong with the environment, or with a file of variables")
    checks.add_argument(
        "file",
        type=Path,
        nargs="?",
        help="lines of <NAME>=<value>, which NCCL takes as they stand, or of a shell's export; without it this"
        " environment and NCCL's own files",
    )
    checks.add_argument("--nodes", type=int, help="how many machines there are")
    checks.add_argument("--processes", type=int, help="how many processes a machine has")
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


def _version(text: str) -> tuple[int, int, int]:
    parts = text.split(".")
    if not (2 <= len(parts) <= 3 and all(part.isascii() and part.isdigit() for part in parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no release of NCCL; write it as 2.27 or 2.27.5")
    return table.latest(table.version(text))


def _check(asked: argparse.Namespace) -> int:
    context = Context(nodes=asked.nodes, processes=asked.processes, net=asked.net, nccl=asked.nccl)
    if asked.file is None:
        values = sources.gather(os.environ, {}, {})
        context = _here(context)
    elif not asked.file.is_file():
        print(f"nccl: there is no file {asked.file}; name a file of <NAME>=<value> lines", file=sys.stderr)
        return 2
    else:
        values = _of_file(asked.file)
    found = check(values, context)
    if asked.json:
        print(json.dumps([{**dataclasses.asdict(one), "line": one.line()} for one in found], indent=2))
    else:
        _print(found, len(values))
    return {"error": 2, "warning": 1}[found[0].severity] if found else 0


def _here(context: Context) -> Context:
    """With what this machine tells without any library."""
    links: dict[str, Literal["ib", "ethernet"]] = {"InfiniBand": "ib", "Ethernet": "ethernet"}
    ports = [port for port in adapters.find(Path("/sys")) if port.layer in links]
    return dataclasses.replace(
        context,
        local=True,
        interfaces=interfaces.find(Path("/proc")) or None,
        devices=tuple(Device(port.name, links[port.layer], port.active) for port in ports),
    )


def _of_file(path: Path) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in sources.read(str(path)).items():
        if name.startswith("export "):
            name, value = name.removeprefix("export ").strip(), Value(_as_shell(value.value), value.source)
        found[name] = value
    return found


def _as_shell(text: str) -> str:
    """What a shell makes of a value: it takes the quotation marks off."""
    try:
        return " ".join(shlex.split(text, comments=True))
    except ValueError:
        return text


def _print(found: Sequence[Finding], count: int) -> None:
    for one in found:
        print(f"{one.severity}: {one.line()}")
        print(f"  {one.reason} ({one.rule})")
    errors = sum(one.severity == "error" for one in found)
    numbers = (("variable", count), ("error", errors), ("warning", len(found) - errors))
    print(", ".join(f"{number} {what}{'' if number == 1 else 's'}" for what, number in numbers))


def _explain(asked: argparse.Namespace) -> int:
    text = explain.explain(asked.name)
    if text is None:
        print(explain.unknown(asked.name), file=sys.stderr)
        return 2
    print(text)
    return 0


def _show(asked: argparse.Namespace) -> int:
    # Only this command needs a library, which a bare Python may lack.
    from trainer.nccl.checker import preset

    known = preset.presets()
    if asked.preset not in known:
        near = difflib.get_close_matches(asked.preset, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
        print(f"nccl: there is no preset {asked.preset}; {hint}", file=sys.stderr)
        return 2
    shown = preset.read(asked.preset)
    print(f"{shown.name}: {shown.what}")
    for name, value, why in shown.variables:
        row = table.find(name)
        print(f"  {name}={value}\n    {why or (row.meaning if row else '')}")
    if not shown.variables:
        print("  sets nothing")
    if shown.notes:
        print(f"  {shown.notes}")
    return 0
