"""The page of options: it is up to date, and what stands in it can be set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import Field

from trainer import options
from trainer.spec import Spec

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "options.md"


@pytest.fixture(scope="module")
def page() -> str:
    return options.markdown()


def test_the_page_is_what_the_specs_say(page):
    assert PAGE.read_text() == page + "\n"


def test_every_option_of_every_yaml_file_is_on_it(page):
    listed = set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE))
    for path in (ROOT / "conf").glob("*/*.yaml"):
        node = yaml.safe_load(path.read_text()) or {}
        if "_target_" not in node:
            continue
        before = f"logger.{path.stem}" if path.parent.name == "logger" else path.parent.name
        for key in node.keys() - {"_target_"}:
            assert any(name.startswith(f"{before}.{key}") for name in listed), f"{path}: {key}"


def test_every_option_is_explained(page):
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    assert len(rows) > 80
    assert not [row for row in rows if len(row[3].strip(" |")) < 5]


class Part(Spec):
    size: Annotated[int, Field(ge=1)] = 2
    """the number of things"""


class Thing(Spec):
    part: Part = Part()
    share: Annotated[float, Field(gt=0, le=1)]
    """the share of a | b"""
    most: Annotated[int, Field(ge=0, lt=5000)] | Literal["auto"] | None = None
    """the most"""
    pair: tuple[bool, str] = (True, "x")
    """a pair"""


class Other(Thing):
    most: int = 3


def test_an_option_has_its_values_default_and_meaning():
    part, share, most, pair = options._options(Thing, "thing.")
    assert part == ("thing.part.size", "whole number ≥ 1", 2, "the number of things")
    assert share == ("thing.share", "0 < number ≤ 1", "???", "the share of a | b")
    assert most == ("thing.most", "0 ≤ whole number < 5,000, `auto`, `null`", None, "the most")
    assert pair == ("thing.pair", "list (`true`, `false`, text)", [True, "x"], "a pair")
    assert options._table([share]).splitlines()[2] == (
        "| `thing.share` | 0 < number ≤ 1 | must be given | the share of a \\| b |"
    )


def test_another_default_alone_makes_no_option_of_its_own():
    assert options._options(Other)[2].meaning == "the most"
    assert options._origin(Other, "most") is Thing
