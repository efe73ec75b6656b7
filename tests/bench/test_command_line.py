"""The command's own words, and which cases it takes; nothing is measured here."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench import command_line
from scripts.bench.case import FLOORS, Case
from scripts.bench.command_line import NAMES, chosen, main
from scripts.bench.lab import BenchError

RUN = Path(__file__).parents[2] / "scripts" / "bench" / "run"
SLOW = Case("net", FLOORS, "compute alone", ("model=mlp",), rate="100mbit", rounds=9, steps=5, quick=False)
FAST = Case("net", FLOORS, "compute alone", ("model=mlp",), rate="1gbit", rounds=9, steps=5)


def _options(**given) -> argparse.Namespace:
    return argparse.Namespace(**{"quick": False, "hosts": None, "rate": None} | given)


def test_the_list_says_what_each_table_shows():
    told = subprocess.run([sys.executable, RUN, "--list"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in told.splitlines()] == NAMES
    assert all(len(line.split()) > 5 for line in told.splitlines())


def test_an_unknown_table_is_answered_with_the_nearest(capsys):
    assert main(["bucket"]) == 2
    assert capsys.readouterr().err == "run: there is no table 'bucket'; did you mean 'buckets'?\n"


def test_no_table_is_answered_with_all(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err.endswith(f"; choose from: {', '.join(sorted([*NAMES, 'all']))}\n")


def test_quick_figures_do_not_get_into_the_page(capsys):
    assert main(["overhead", "--quick", "--write"]) == 2
    assert "--write" in capsys.readouterr().err


def test_quick_takes_fewer_cases_and_rounds():
    assert [(case.rate, case.rounds, case.steps) for case in chosen([SLOW, FAST], _options(quick=True))] == [
        ("1gbit", 2, 1)
    ]
    assert chosen([SLOW, FAST], _options()) == [SLOW, FAST]


def test_one_network_for_all_leaves_each_model_once():
    (case,) = chosen([SLOW, FAST], _options(hosts=3, rate="10gbit"))
    assert (case.ranks, case.rate) == (3, "10gbit")
    # The network was chosen, so nothing is left out for its slowness.
    (quick,) = chosen([SLOW, FAST], _options(hosts=3, rate="10gbit", quick=True))
    assert (quick.ranks, quick.rounds) == (3, 2)


def test_what_cannot_be_measured_does_not_stop_the_others(monkeypatch, capsys, tmp_path):
    def measure(name, options):
        if name == NAMES[0]:
            raise BenchError("the lab fell over")
        return []

    monkeypatch.setattr(command_line, "tables_of", measure)
    assert main(["all", "--json", str(tmp_path / "all.json")]) == 1
    told = capsys.readouterr()
    assert told.err == "the lab fell over\n"
    assert [line for line in told.out.splitlines() if line.startswith("##")] == [f"## {name}" for name in NAMES]
    assert list(json.loads((tmp_path / "all.json").read_text())["tables"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_made_of_cases_or_measures_itself(name):
    module = command_line._module(name)
    for case in getattr(module, "CASES", ()):
        names = [variant.name for variant in case.variants]
        assert case.reference in names
        assert len(set(names)) == len(names)
    assert hasattr(module, "CASES") != hasattr(module, "measure")


def test_what_cannot_run_on_so_many_hosts_is_refused_before_anything_starts(capsys):
    assert main(["peers", "--hosts", "3"]) == 2
    assert capsys.readouterr().err.startswith("batch.size: 16 does not divide by 3 data ranks")
