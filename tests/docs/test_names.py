"""What the docs name exists: pages and headings behind links, files, options and choices."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.extract import PAGES, ROOT, prose, spans
from trainer import options
from trainer.config import GROUPS, NODES

ALL = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# What readers have, whoever they are.
OURS = {"ours", "team", "lab_1g"}
HEADS = {*GROUPS, *NODES, "logger"}


def _name(page: Path) -> str:
    return page.name


def _anchors(page: Path) -> set[str]:
    """The names under which GitHub shows the headings of a page."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page.read_text()), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors


def _broken(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(prose(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        at = (page.parent / path) if path else page
        if not at.exists() or (anchor and anchor not in _anchors(at)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", ALL, ids=_name)
def test_every_link_leads_somewhere(page: Path):
    assert not _broken(page)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "b.md").write_text("# A title, with `code`\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "a.md"
    page.write_text(
        "[1](b.md) [2](b.md#a-title-with-code) [3](b.md#twice-1) [4](https://x.y) [5](c.md) [6](b.md#thrice)\n"
    )
    assert _broken(page) == ["c.md", "b.md#thrice"]


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != ROOT], ids=_name)
def test_a_reader_of_the_readme_finds_every_page(page: Path):
    assert f"docs/{page.name}" in LINK.findall((ROOT / "README.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_file_that_is_named_exists(page: Path):
    for line, code in spans(page.read_text()):
        path = re.match(r"(?:src|scripts|docs|conf|tests)/[\w./-]*\w", code)
        # A word in capitals stands for the reader's own.
        if path and not re.search(r"<|\b[A-Z]+\b", code):
            assert (ROOT / path[0]).exists(), f"{page.name}:{line} {code}"


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every option, and every part of a name that leads to one."""
    keys = re.findall(r"^\| `(?:logger\.)?([\w.]+)` \|", options.markdown(), re.MULTILINE)
    return {key[: found.start()] for key in keys for found in re.finditer(r"\.|$", key)}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_option_that_is_named_exists(page: Path, known: set[str]):
    for line, code in spans(page.read_text()):
        for word in code.split():
            option = re.fullmatch(rf"\+?((?:{'|'.join(HEADS)})\.[\w.]+?)\.?(?:=.*)?", word)
            if option and not re.search(r"\.(env|kwargs|options)\.|\.(json|yaml|csv|html)$", option[1]):
                assert option[1].removeprefix("logger.") in known, f"{page.name}:{line} {code}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_choice_that_is_named_exists(page: Path):
    for line, code in spans(page.read_text()):
        for group, choice in re.findall(rf"(?<![\w.])({'|'.join(sorted(HEADS))})=(\w+)", code):
            if group in NODES or choice in OURS:
                continue
            assert (ROOT / "conf" / group / f"{choice}.yaml").exists(), f"{page.name}:{line} {code}"
