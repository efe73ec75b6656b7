"""The page's markers."""

from __future__ import annotations

import pytest

from scripts.bench.command_line import NAMES
from scripts.bench.document import PATH, replaced

PAGE = "before\n<!-- bench:a -->\nold\n<!-- /bench:a -->\nbetween\n<!-- bench:b -->\n<!-- /bench:b -->\nafter\n"


def test_only_what_stands_between_the_markers_changes():
    text = r"| \1 | new |" + "\n"
    assert replaced(PAGE, "a", text) == PAGE.replace("old\n", text)
    assert replaced(replaced(PAGE, "b", "x\n"), "b", "") == PAGE


def test_a_page_without_the_markers_is_left_alone():
    with pytest.raises(ValueError, match="<!-- bench:c -->"):
        replaced(PAGE, "c", "text")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_a_place_for_every_table(name):
    assert f"run {name}" in PATH.read_text()
    replaced(PATH.read_text(), name, "")
