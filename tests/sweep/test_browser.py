"""The page of a sweep in a real browser."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.sweep.scene import result
from trainer.sweep import page
from trainer.sweep.options import Sweep
from trainer.sweep.ranking import rank

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium: apt-get install chromium")
# On a busy machine.
PATIENCE_MS = 60_000


def test_every_run_has_a_cell_that_says_what_it_was_and_nothing_leaves_the_page(tmp_path):
    pairs = [(mb, comm) for mb in (1, 5, 25) for comm in ("fp16", "topk")]
    results = {
        str(at): result(f"bucket={mb}", f"comm={comm}", value=float(at)) for at, (mb, comm) in enumerate(pairs[:-1])
    }
    results["5"] = result("bucket=25", "comm=topk", status="failed", reason="rank 0 failed")
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "report.html").write_text("the report of run 0")
    path = page.write(rank(results, Sweep()), tmp_path)
    # Chromium's sandbox refuses to run as root.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    problems: list[str] = []
    with (
        sync_api.sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=BROWSER, args=options) as browser,
    ):
        shown = browser.new_page()
        shown.on("console", lambda message: problems.append(message.text))
        shown.on("pageerror", lambda error: problems.append(str(error)))
        shown.on("request", lambda request: problems.append(request.url) if request.url != path.as_uri() else None)
        shown.goto(path.as_uri())
        shown.wait_for_selector("body[data-drawn]", timeout=PATIENCE_MS)
        cells = shown.locator("#settings .cells_marks path")
        assert cells.count() == 6
        # The best is the last drawn.
        cells.nth(5).hover(force=True)
        tooltip = shown.locator("#vg-tooltip-element")
        tooltip.wait_for(state="visible", timeout=PATIENCE_MS)
        assert tooltip.inner_text() == "run 4: done\nbucket=25\ncomm=fp16\nspeed/samples_per_s: 4.000"
        assert not problems
        shown.get_by_role("link", name="0", exact=True).click()
        assert "the report of run 0" in shown.content()
