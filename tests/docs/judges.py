"""What makes a command of the docs a right one, command by command. One that nothing here knows is a failure."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import logging
import os
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from unittest import mock

from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.docs.extract import ROOT
from trainer.lab import arguments as netlab_arguments
from trainer.lab.command import command_for
from trainer.lab.layout import Lab, LabError

Judge = Callable[[list[str], "str | None"], None]
SUBNET = IPv4Network("10.77.0.0/24")
# A line as ConfigError has it: where, what is wrong, what to do.
REFUSAL = re.compile(r"[\w.]+: [^\n]+; [^\n]+")


class Wrong(AssertionError):
    """Why a command of the docs does not do what they say."""


def judge(text: str, shown: str | None) -> None:
    """Raise Wrong if what `text` says cannot be done, or does not print what is `shown`.

    Places that only the reader has lie in the present folder: /shared and /home.
    """
    placed = re.sub(r"(?<![\w.])/(?=shared/|home/)", f"{Path.cwd()}/", text)
    lexer = shlex.shlex(placed, posix=True, punctuation_chars="&;|>")
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[list[str]] = [[]]
    for word in lexer:
        words.append([]) if word in ("&&", ";", "|") else words[-1].append(word)
    with mock.patch.dict(os.environ):
        for number, command in enumerate(words):
            _judge(command, shown if number == len(words) - 1 else None)


def _judge(words: list[str], shown: str | None) -> None:
    if ">" in words:
        words, shown = words[: words.index(">")], None
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    known = JUDGES.get(words[0]) or JUDGES.get(" ".join(words[:2]))
    if known is None:
        raise Wrong(
            f"no test can judge '{words[0]}'; teach tests/docs/judges.py to, or if the block is no command but output,"
            " begin it with ```text"
        )
    known(words, shown)


def _train(words: list[str], shown: str | None) -> None:
    """Composes and resolves, each run of a sweep too; what is shown as refused is refused in these words."""
    arguments = words[2:] if words[0] == "python" else words[1:]
    if any(word.startswith("hydra") for word in arguments):
        arguments = _one_run(arguments)
    code, output = dry_run(arguments)
    lines = [line for line in output.splitlines() if line]
    if code:
        if shown is None or shown.splitlines() != lines[-len(shown.splitlines()) :]:
            raise Wrong(f"it is refused:\n{output}")
    elif shown and "\n" not in shown and REFUSAL.fullmatch(shown):
        raise Wrong("it is shown as refused, and is not")
    elif shown and "dry_run=true" in arguments:
        missing = [line for line in shown.splitlines() if line != "…" and line not in output.splitlines()]
        if missing:
            raise Wrong(f"it does not print {missing}")


def _one_run(arguments: list[str]) -> list[str]:
    """The first run of a sweep that somebody else leads: a search, or a scheduler of jobs that is not here."""
    first = []
    for override in OverridesParser.create().parse_overrides([word for word in arguments if not word.startswith("-")]):
        if override.key_or_group.startswith("hydra"):
            continue
        if override.is_discrete_sweep():
            first.append(f"{override.get_key_element()}={next(override.sweep_string_iterator())}")
        elif override.is_sweep_override():
            first.append(f"{override.get_key_element()}={override.value().start}")
        else:
            first.append(override.input_line)
    return first


def dry_run(arguments: Sequence[str]) -> tuple[int, str]:
    """The exit code of train.py in this process, with nothing launched, and what it printed."""
    wanted = [] if "dry_run=true" in arguments else ["dry_run=true"]
    handlers, level = list(logging.root.handlers), logging.root.level
    with _as_command("train.py", [*arguments, *wanted]), _printed() as output:
        try:
            code = _run(ROOT / "train.py")
        finally:
            # Hydra sets up logging anew for each run.
            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
    return code, output.getvalue()


def _netlab(words: list[str], shown: str | None) -> None:
    """Its own parser takes the line, and what the first host is told is judged by itself."""
    try:
        with mock.patch("shutil.which", return_value="/usr/bin/it"):
            options, command = netlab_arguments.parse(words[1:])
    except LabError as error:
        raise Wrong(error) from None
    if command:
        lab = Lab("lab", options.hosts or 2, options.ranks_per_host or 1, options.rate or "1gbit", SUBNET)
        _judge(command_for(lab, 0, command), shown)


def _torchrun(words: list[str], shown: str | None) -> None:
    from torch.distributed.run import parse_args

    options = parse_args(words[1:])
    places = {"launch.processes": options.nproc_per_node, "launch.nodes": options.nnodes.rpartition(":")[2]}
    place = [f"{key}={value}" for key, value in places.items() if value.isdigit() and value != "1"]
    several = ["launch.rendezvous=localhost:29500"] if "launch.nodes" in "".join(place) else []
    _judge(["python", options.training_script, *options.training_script_args, *place, *several], shown)


def _slurm(words: list[str], shown: str | None) -> None:
    """Its own parser takes the line, and the trainer what stands behind it."""
    _parsed(words, shown)
    if "--" in words:
        command = words[words.index("--") + 1 :]
        _judge(command if command[:1] == ["python"] else ["python", "train.py", *command], shown)


def _export(words: list[str], shown: str | None) -> None:
    """It holds for the commands behind it."""
    os.environ.update(word.split("=", 1) for word in words[1:])


def _slurm_step(words: list[str], shown: str | None) -> None:
    _judge(words[words.index("python") :], shown)


def _parsed(words: list[str], shown: str | None) -> None:
    """The script's own parser takes the line; nothing is done."""

    class Accepted(Exception):
        pass

    parse = argparse.ArgumentParser.parse_args

    def parse_only(parser: argparse.ArgumentParser, *arguments: object, **others: object) -> None:
        parse(parser, *arguments, **others)  # type: ignore[call-overload]
        raise Accepted

    parsing = mock.patch.object(argparse.ArgumentParser, "parse_args", parse_only)
    with parsing, _as_command(words[0], words[1:]), _printed() as output, contextlib.suppress(Accepted):
        code = _run(ROOT / words[0])
        raise Wrong(f"it ends with {code}: {output.getvalue()}")


def _bench(words: list[str], shown: str | None) -> None:
    from scripts.bench.command_line import NAMES, _parser

    options = _parser().parse_args(words[1:])
    if not options.list and options.name not in [*NAMES, "all"]:
        raise Wrong(f"there is no table {options.name}")


def _nccl(words: list[str], shown: str | None) -> None:
    """Done for real: it takes no time. Warnings are no failure."""
    if "FILE" in words:
        _parsed(words, shown)
        return
    with _as_command(words[0], words[1:]), _printed() as output:
        code = _run(ROOT / words[0])
    if code > 1 and shown is None:
        raise Wrong(f"it ends with {code}: {output.getvalue()}")
    if shown is not None and shown != output.getvalue().strip():
        raise Wrong(f"it prints:\n{output.getvalue()}")


def _module(words: list[str], shown: str | None) -> None:
    if importlib.util.find_spec(words[2]) is None:
        raise Wrong(f"there is no module {words[2]}")


def _install(words: list[str], shown: str | None) -> None:
    """Extras that are named are extras of the package."""
    project = (ROOT / "pyproject.toml").read_text()
    for word in words:
        found = re.fullmatch(r"\.\[(.*)\]", word)
        for extra in found[1].split(",") if found else []:
            if not re.search(rf"^{extra} = \[", project, re.MULTILINE):
                raise Wrong(f"there is no extra {extra}")


def _set_up(words: list[str], shown: str | None) -> None:
    """A script that first makes the virtual environment; the rest is for train.py or pytest."""
    if not os.access(ROOT / words[0], os.X_OK):
        raise Wrong(f"{words[0]} cannot be run")
    if words[0] == "scripts/train":
        _train(words, shown)


def _as_it_stands(words: list[str], shown: str | None) -> None:
    """A shell's own, or a tool's that is not ours; there is nothing in it that we could break."""


JUDGES: dict[str, Judge] = {
    "python train.py": _train,
    "python -m": _module,
    "scripts/train": _set_up,
    "scripts/test": _set_up,
    "scripts/netlab": _netlab,
    "scripts/bench/run": _bench,
    "scripts/nccl": _nccl,
    "torchrun": _torchrun,
    "srun": _slurm_step,
    "pip install": _install,
    "git clone": _as_it_stands,
    "cd": _as_it_stands,
    "source": _as_it_stands,
    "export": _export,
    "scripts/slurm": _slurm,
    # Every other script of ours has a parser.
    **{f"scripts/{name}": _parsed for name in ("doctor", "report", "preset", "sweep")},
}


def _run(script: Path) -> int:
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@contextlib.contextmanager
def _as_command(name: str, arguments: Sequence[str]) -> Iterator[None]:
    """This process with another command line, and afterwards as it was, environment and all."""
    before, path, cached = dict(os.environ), list(sys.path), sys.dont_write_bytecode
    try:
        with mock.patch.object(sys, "argv", [name, *arguments]):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.path[:], sys.dont_write_bytecode = path, cached


@contextlib.contextmanager
def _printed() -> Iterator[io.StringIO]:
    """What is printed within it, on both streams."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        yield output
