"""Tables as Markdown and as numbers."""

from __future__ import annotations

import json

from scripts.bench.case import FLOORS, Case, Variant
from scripts.bench.table import Table, case_table
from scripts.bench.worker import Measured

CASE = Case(
    "A net",
    variants=(*FLOORS, Variant("theirs", "hand"), Variant("ours", "ours"), Variant("absent", "fabric")),
    reference="theirs",
    overrides=("model=mlp", "batch.size=8"),
    rate="1gbit",
    rounds=2,
)
MEASURED = Measured(
    {
        "compute alone": [0.1, 0.1, 0.1],
        "communication alone": [0.2, 0.2, 0.2],
        "theirs": [0.4, 0.4, 0.4],
        "ours": [0.2, 0.25, 0.3],
    },
    {"absent": "not installed: lightning"},
)


def test_a_case_gives_ratios_to_the_reference_and_to_the_larger_floor():
    lines = case_table(CASE, MEASURED).markdown().splitlines()
    assert lines == [
        "**A net, 2 hosts, 1gbit.** `model=mlp batch.size=8`; 2 rounds of 4 steps.",
        "",
        "| variant | step, ms | ÷ theirs | ÷ communication alone |",
        "| --- | ---: | ---: | ---: |",
        "| compute alone | 100.0 ± 0.0 | 0.250 ± 0.000 | 0.500 ± 0.000 |",
        "| communication alone | 200.0 ± 0.0 | 0.500 ± 0.000 |  |",
        "| theirs | 400.0 ± 0.0 |  | 2.000 ± 0.000 |",
        "| ours | 250.0 ± 25.0 | unclear (0.625 ± 0.062) | unclear (1.250 ± 0.125) |",
        "| absent | not installed: lightning |  |  |",
    ]


def test_numbers_hold_every_round_and_say_what_is_clear():
    plain = json.loads(json.dumps(case_table(CASE, MEASURED).plain()))
    ours = plain["numbers"]["ours"]
    assert ours["rounds"] == [0.2, 0.25, 0.3]
    assert ours["ratios"]["theirs"]["clear"] is False
    assert plain["numbers"]["theirs"]["ratios"]["communication alone"]["median"] == 2.0
    assert plain["numbers"]["absent"] == {"missing": "not installed: lightning"}


def test_a_bar_in_a_cell_does_not_end_it():
    assert "| a\\|b |" in Table("t", "s", ["x"], [["a|b"]]).markdown()


def test_the_network_is_told_in_words():
    assert CASE.network == "2 hosts, 1gbit"
    assert Case("x", (), "", (), rate="none").network == "2 hosts, unshaped"
    assert Case("x", (), "", ()).network == "2 processes on one host's loopback"
