"""netlab's command line: what is refused, with which line, and where options may stand. Needs no root."""

from __future__ import annotations

import os
import re
import sys

import pytest

from trainer.lab.arguments import parse
from trainer.lab.command_line import main

UP = ["up", "--hosts", "2", "--rate", "1gbit"]
# where: what is wrong with which value; what to do
FORM = re.compile(r"[^:]+: .+[;,] .+")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "--hosts", "65", "--rate", "1gbit"], "--hosts: 65 is too many"),
        (["up", "--hosts", "1", "--rate", "1gbit"], "--hosts: 1 is too few"),
        (["up", "--rate", "1gbit"], "up: --hosts is missing"),
        (["up", "--hosts", "2"], "up: --rate is missing"),
        (["--hosts", "2", "run", "--", "true"], "run: --rate is missing"),
        ([*UP, "--ranks-per-host", "0"], "--ranks-per-host: 0"),
        ([*UP, "--name", "My_Lab"], "--name: 'My_Lab'"),
        ([*UP, "--name", "x" * 32], "--name: 'xxx"),
        ([*UP, "--subnet", "10.1.2.3/24"], "--subnet: 10.1.2.3/24 has host bits set"),
        ([*UP, "--subnet", "10.0.0.0/16"], "--subnet: 10.0.0.0/16"),
        ([*UP, "--", "true"], "up: it takes no command (-- true)"),
        (["run"], "run: there is no command"),
        (["run", "--"], "run: there is no command"),
        (["run", "--", "no-such-program"], "run: there is no program no-such-program"),
        (["--hosts", "2", "down"], "down: --hosts is for a new lab"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, said, capsys):
    assert main(arguments) == 2
    line = capsys.readouterr().err
    assert line.startswith(said)
    assert FORM.fullmatch(line.rstrip("\n"))


@pytest.mark.parametrize("arguments", [[], ["fly"], ["rate"], ["up", "--hosts", "two"], ["run", "python", "train.py"]])
def test_what_argparse_knows_better_is_left_to_it(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: netlab" in capsys.readouterr().err


def test_options_stand_before_or_after_the_verb():
    shape = ["--hosts", "4", "--rate", "1gbit", "--ranks-per-host", "2", "--name", "x", "--no-check"]
    before, command = parse([*shape, "run", "--", "echo", "--", "--hosts"])
    after, _ = parse(["run", *shape, "--", "echo"])
    assert vars(before) == vars(after)
    assert (before.hosts, before.rate, before.ranks_per_host, before.name, before.no_check) == (
        4,
        "1gbit",
        2,
        "x",
        True,
    )
    assert command == ["echo", "--", "--hosts"]


def test_without_a_shape_run_uses_the_lab_that_is_there():
    options, _ = parse(["run", "--", "true"])
    assert options.hosts is None


def test_only_root_may(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(UP) == 2
    assert capsys.readouterr().err == "netlab: user 1000 may not make network namespaces; run it as root, with sudo\n"


def test_only_on_linux(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(UP) == 2
    assert "this is darwin" in capsys.readouterr().err


def test_missing_tools_are_named_with_their_package(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(UP) == 2
    assert capsys.readouterr().err == "netlab: there is no ip on the PATH; apt install iproute2\n"
