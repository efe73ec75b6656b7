"""The table of variables is whole and of one form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trainer.nccl.checker import explain, table
from trainer.nccl.checker.catalogue import RULES

ROWS = list(table.variables().values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_whole(row):
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*\*?", row.name)
    assert row.reader in ("nccl", "torch", "gloo", "other")
    assert row.guide in ("yes", "no", "tuning")
    assert row.same in ("job", "node", "rank", "log") or row.reader == "other"
    assert re.fullmatch(r"(\d+(\.\d+){1,2})?", row.since)
    assert re.fullmatch(r"((removed|renamed) \d+(\.\d+){1,2}|deprecated( \d+(\.\d+){1,2})?)?", row.ended)
    assert row.meaning
    assert not row.meaning.endswith(".")
    assert (row.kind in ("switch", "integer")) >= bool(re.search(r"\.\.", row.allowed))
    assert not row.rule or row.rule in {rule.name for rule in RULES}
    assert explain.explain(row.name).startswith(f"{row.name}: {row.meaning}\n  read by: ")


@pytest.mark.parametrize("row", [row for row in ROWS if row.instead], ids=lambda row: row.name)
def test_what_took_a_place_is_itself_in_the_table(row):
    assert row.ended
    assert not table.variables()[row.instead.partition("=")[0]].ended.startswith("removed")


@pytest.mark.parametrize("misnomer", table.misnomers().values(), ids=lambda misnomer: misnomer.name)
def test_a_misnomer_is_no_variable_and_leads_to_one(misnomer):
    assert table.find(misnomer.name) is None
    for name in re.findall(r"\b[A-Z]+_[A-Z0-9_]+", misnomer.instead):
        assert table.variables()[name].ended == ""


def test_it_is_as_large_as_it_is_said_to_be():
    assert len(ROWS) == 375
    assert sum(row.reader == "nccl" for row in ROWS) > 250
    assert len({row.meaning for row in ROWS}) > 360


def test_names_of_plugins_are_found_by_their_beginning():
    assert table.find("NCCL_FASTRAK_NUM_FLOWS") is table.variables()["NCCL_FASTRAK_*"]
    assert table.find("OFI_NCCL_PROTOCOL") is table.variables()["OFI_NCCL_*"]
    assert table.find("NCCL_FASTRA") is None


def test_a_series_is_its_last_release_that_is_known():
    assert [table.latest(one) for one in ((2, 27), (2, 30), (2, 27, 1), (3, 0))] == [
        (2, 27, 5),
        (2, 30, 7),
        (2, 27, 1),
        (3, 0, 0),
    ]


def test_the_tables_go_where_the_package_goes():
    project = Path(__file__).parents[3] / "pyproject.toml"
    assert '"nccl/checker/tables/*.csv"' in project.read_text()
