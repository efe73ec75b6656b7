"""The page as text: what is in it, whatever the folder is like."""

from __future__ import annotations

import html.parser
import json
import re

import vl_convert

from tests.report.scene import HOSTILE, line, run, step, window
from trainer.doctor.finding import Finding
from trainer.overlap.evidence import Window, read
from trainer.report import palette
from trainer.report.page import page, write

FINDING = Finding("Slow start", "It takes 3 ms.", "comm=topk", 3.0)


class Outline(html.parser.HTMLParser):
    """What is in a page, without what browsers run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.specs: dict = {}
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        self.tags.append(tag)
        self.ids += [known["id"]] if "id" in known else []
        self._script = known.get("id", "") if tag in ("script", "style") else None
        assert not {"src", "srcset", "href"} & set(known) or known.get("href", "").startswith("#")

    def handle_endtag(self, tag):
        self._script = None

    def handle_data(self, data):
        if self._script is None:
            self.words += data
        elif self._script == "specs":
            self.specs = json.loads(data)


def outline(evidence, findings=()) -> Outline:
    return Outline(page(evidence, list(findings)))


def test_the_page_has_every_part_and_is_sound():
    found = outline(run(), [FINDING])
    assert list(found.specs) == ["timeline", "shares", "parts", "sent", "compression", "loss", "accuracy", "ranks"]
    assert len(found.ids) == len(set(found.ids))
    assert set(found.specs) <= set(found.ids)
    assert [found.tags.count(tag) for tag in ("html", "header", "main", "h1", "table", "details")] == [1, 1, 1, 1, 4, 4]
    assert "What is missing" not in found.words
    for word in ("Slow start", "It takes 3 ms.", "comm=topk", "saves about 3.00 ms", "71% of that is hidden"):
        assert word in found.words


def test_findings_come_first_in_their_order():
    words = outline(run(), [FINDING, Finding("Then this", "", "", None)]).words
    assert words.index("Slow start") < words.index("Then this") < words.index("A typical step")
    assert "Nothing that was measured calls for a change" in outline(run()).words


def test_charts_compile_and_use_only_colours_that_the_page_sets():
    text = page(run(ranks=3), [])
    for spec in Outline(text).specs.values():
        vl_convert.vegalite_to_vega(palette.fixed(spec))
        assert set(re.findall(r"var\(--([\w-]+)\)", json.dumps(spec))) <= set(palette.LIGHT)
    assert set(palette.LIGHT) == set(palette.DARK)


def test_everything_from_files_is_escaped():
    spans = [[event._replace(name=HOSTILE) for event in step()]] * 2
    evidence = run(
        config={"name": HOSTILE, "a": {HOSTILE: [HOSTILE]}, "model": {"_target_": f"a.{HOSTILE}.b"}},
        hosts=[HOSTILE, "b"],
        windows=[Window(step=10, steps=10, ranks=[{"step": 0.08}] * 2, timeline=spans)],
        lacks=[HOSTILE],
    )
    text = page(evidence, [Finding(HOSTILE, HOSTILE, HOSTILE, None)])
    # One for the specs, one for the bundle and one that draws.
    assert text.count("<script") == 3
    found = Outline(text)
    assert found.words.count(HOSTILE) >= 6
    assert found.specs["timeline"]["layer"][3]["data"]["values"][0]["said"].startswith("rank 0: waits for data")


def test_the_page_is_small_and_says_that_it_thinned_thousands_of_steps():
    steps = range(1, 5001)
    evidence = run(
        metrics=[line(at) for at in steps], windows=[window(at, 8, timeline=at % 80 == 0) for at in steps], steps=5000
    )
    text = page(evidence, [FINDING])
    assert "5,000 logged steps are drawn as 240 points" in text
    assert len(text.encode()) < 3e6


def test_a_folder_with_nothing_is_told_what_it_lacks(tmp_path):
    found = outline(read(tmp_path))
    for word in ("run.yaml is missing", "metrics.jsonl is missing", "ranks.jsonl is missing", "there is no timeline"):
        assert word in found.words
    assert "script" not in found.tags


def test_a_file_cut_in_mid_line_is_shown_as_far_as_it_goes(tmp_path):
    metrics = json.dumps({"step": 10, "train/loss": 1.5, "speed/step_ms": 20.0})
    (tmp_path / "metrics.jsonl").write_text(f"{metrics}\n{metrics[:20]}")
    found = outline(read(tmp_path))
    assert "metrics.jsonl has 1 lines that cannot be read" in found.words
    assert list(found.specs) == ["loss"]
    assert "20.0 ms" in found.words


def test_a_run_that_goes_on_or_was_stopped_says_how_far_it_came():
    config = {"name": "made up", "steps": 80}
    assert "came to step 50 of 80" in outline(run(config=config)).words
    assert "came to step" not in outline(run(config={**config, "steps": None})).words


def test_an_older_version_shows_what_it_has():
    older = Window(step=10, steps=10, ranks=[{"forward": 0.1}, {"forward": 0.2}], timeline=[[], step()])
    found = outline(run(windows=[older, older], lacks=["ranks.jsonl is of version 0, this program reads 1."]))
    assert "version 0" in found.words
    assert "there is no timeline" not in found.words
    assert {"timeline", "shares", "parts", "loss", "ranks"} <= set(found.specs)


def test_a_part_that_fails_takes_nothing_else_with_it(monkeypatch):
    monkeypatch.setattr("trainer.report.ranks.draw", lambda evidence: 1 / 0)
    found = outline(run())
    assert "The part 'ranks' cannot be drawn (ZeroDivisionError" in found.words
    assert "ranks" not in found.specs
    assert "timeline" in found.specs


def test_a_diverged_loss_makes_no_invalid_json():
    found = outline(run(metrics=[line(10), line(20, **{"train/loss": float("nan")})]))
    assert len(found.specs["loss"]["layer"]) == 2


def test_the_page_is_written_whole_over_the_one_before(tmp_path):
    for _ in range(2):
        assert write(run(tmp_path), [FINDING]) == tmp_path / "report.html"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text().rstrip().endswith("</html>")
