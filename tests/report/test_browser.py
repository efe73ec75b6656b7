"""The page in a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.report.scene import HOSTILE, run, step
from trainer.doctor.finding import Finding
from trainer.overlap.evidence import Window
from trainer.report.page import write

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium: apt-get install chromium")
# On a busy machine.
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        with playwright.chromium.launch(executable_path=BROWSER, args=options) as browser:
            yield browser


@pytest.fixture
def show(browser, tmp_path) -> Iterator[Any]:
    """Opens the page of a run and waits until it is drawn; nothing may complain or leave the page."""
    problems: list[str] = []
    contexts = []

    def show(evidence=None, findings=(), **context: Any) -> Any:
        path = write((evidence or run())._replace(folder=tmp_path), list(findings))
        contexts.append(browser.new_context(**context))
        page = contexts[-1].new_page()
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-drawn]", timeout=PATIENCE_MS)
        return page

    yield show
    for context in contexts:
        context.close()
    assert not problems


def bars(page: Any, layer: str) -> Any:
    return page.locator(f"#timeline .{layer}_marks path")


def test_the_timeline_has_a_bar_for_each_span(show):
    page = show(run(ranks=3))
    # Five spans of the training thread and two buckets a rank.
    assert [bars(page, layer).count() for layer in ("spans", "buckets", "moves")] == [15, 6, 6]
    assert page.locator("figure svg").count() == 8


def test_pointing_at_a_bucket_shows_it(show):
    page = show()
    # Its bytes move on top of it, so the pointer meets those.
    bars(page, "moves").nth(0).hover()
    tooltip = page.locator("#vg-tooltip-element")
    tooltip.wait_for(state="visible", timeout=PATIENCE_MS)
    assert tooltip.inner_text() == "rank 0: bucket 0: bytes move\n30.1 to 50.0 ms, 19.9 ms\n20.0 MB · 8.0 Gbit/s"


def test_pointing_at_a_chart_shows_the_values_of_its_step(show):
    page = show()
    chart = page.locator("#parts svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    for away in (25, 20):
        page.mouse.move(box["x"] + box["width"] - away, box["y"] + box["height"] / 2)
    tooltip = page.locator("#vg-tooltip-element")
    tooltip.wait_for(state="visible", timeout=PATIENCE_MS)
    words = tooltip.inner_text()
    assert "step" in words
    assert "50" in words
    assert "exposed communication" in words
    assert "10.00" in words


def test_a_bucket_is_labelled_where_there_is_room(show):
    labels = show().locator("#timeline .labels_marks text").all_text_contents()
    assert "20.0 MB · 8.0 Gbit/s" in labels


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 21, 26)")])
def test_text_and_charts_follow_the_theme(show, scheme, paper):
    page = show(color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    muted = page.evaluate("getComputedStyle(document.querySelector('figure p')).color")
    assert page.evaluate("getComputedStyle(document.querySelector('#timeline .role-axis-label text')).fill") == muted
    # Paper is white for everyone.
    page.emulate_media(media="print", color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("width", [360, 1400])
def test_nothing_is_wider_than_the_window(show, width):
    page = show(run(ranks=20), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("#timeline svg").bounding_box()["width"] <= width


def test_names_from_files_are_only_shown(show):
    spans = [[event._replace(name=HOSTILE) for event in step()]] * 2
    windows = [Window(step=10, steps=10, ranks=[{"step": 0.08}] * 2, timeline=spans)]
    page = show(run(config={"name": HOSTILE}, windows=windows), [Finding(HOSTILE, HOSTILE, HOSTILE, 1.0)])
    bars(page, "moves").nth(0).hover()
    page.locator("#vg-tooltip-element").wait_for(state="visible", timeout=PATIENCE_MS)
    assert HOSTILE in page.locator("#vg-tooltip-element").inner_text()
    assert page.locator("h1").inner_text() == HOSTILE


def test_everything_is_reached_by_keyboard_and_named_for_screen_readers(show):
    page = show()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator("#timeline").get_attribute("aria-label").startswith("Step 40, span by span. One typical step")
    assert page.locator(".chart[aria-label][role=graphics-document]").count() == 8
    summary = page.locator("figure:has(#timeline) summary")
    summary.focus()
    page.keyboard.press("Enter")
    table = page.locator("figure:has(#timeline) table")
    assert table.is_visible()
    # A row for each span, bucket, and move.
    assert table.locator("tbody tr").count() == 18
    assert bars(page, "buckets").nth(0).get_attribute("aria-label").startswith("rank 0: bucket 0")


def test_a_page_without_scripts_has_the_numbers(browser, tmp_path):
    path = write(run(tmp_path), [])
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert "The charts need JavaScript" in page.inner_text("body")
    assert "exposed communication" in page.inner_text("main")
    context.close()
