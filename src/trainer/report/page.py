"""The page: everything that a run's folder tells, in one HTML file that needs nothing else."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
import yaml

from trainer.doctor.finding import Finding
from trainer.overlap.evidence import Evidence
from trainer.report import figures, history, palette, ranks, series, timeline, units
from trainer.report.chart import Chart

NAME = "report.html"


def write(evidence: Evidence, findings: Sequence[Finding]) -> Path:
    """Write the page into the run's folder, whole or not at all; its path."""
    path = evidence.folder / NAME
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        unfinished.write_text(page(evidence, findings), encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def page(evidence: Evidence, findings: Sequence[Finding]) -> str:
    """The HTML of the report, with the doctor's `findings` on top."""
    lacks = [*evidence.lacks, *_unfinished(evidence)]
    past = series.history(evidence)
    step = _try(lambda: timeline.draw(evidence), "timeline", lacks)
    over_steps = [_try(lambda draw=draw: draw(past), draw.__name__, lacks) for draw in history.CHARTS]  # type: ignore[misc]
    everyone = _try(lambda: ranks.draw(evidence), "ranks", lacks)
    if not any(window.timeline for window in evidence.windows):
        lacks.append("No step was recorded span by span, so there is no timeline.")
    charts = [chart for chart in (step, *over_steps, everyone) if chart]
    return (
        _environment()
        .get_template("page.html")
        .render(
            name=str(evidence.option("name", evidence.folder.name)),
            facts=_facts(evidence),
            headline=figures.headline(evidence),
            glance=figures.glance(evidence),
            findings=findings,
            lacks=lacks,
            timeline=step,
            over_steps=[chart for chart in over_steps if chart],
            thinned=past.thinned(),
            past=history.numbers(past),
            ranks=everyone,
            figures=figures.numbers(evidence),
            config=yaml.safe_dump(dict(evidence.config), sort_keys=False, allow_unicode=True)
            if evidence.config
            else "",
            specs={chart.key: chart.spec | {"description": f"{chart.title}. {chart.says}"} for chart in charts},
            bundle=_bundle() if charts else "",
            light=palette.css(palette.LIGHT),
            dark=palette.css(palette.DARK),
        )
    )


def _try(draw: Callable[[], Chart | None], what: str, lacks: list[str]) -> Chart | None:
    """The chart, or a sentence in `lacks`: one part of odd files must not take the rest of the page with it."""
    try:
        return draw()
    except Exception as error:
        lacks.append(f"The part '{what}' cannot be drawn ({type(error).__name__}: {error}).")
        return None


def _unfinished(evidence: Evidence) -> list[str]:
    """A sentence if the run has not come to its last step."""
    steps = series.number(evidence.option("steps"))
    done = max((line.step for line in evidence.metrics), default=0)
    if steps is None or done >= steps:
        return []
    return [f"The run came to step {done:,} of {steps:,.0f}: it is still running, or it was stopped."]


def _facts(evidence: Evidence) -> list[tuple[str, str]]:
    """What was run, as terms and their values."""
    count = max((len(window.ranks) for window in evidence.windows), default=len(evidence.hosts))
    hosts = len(set(evidence.hosts))
    facts = {
        "ranks": f"{count} on {hosts} host{'s' * (hosts != 1)}" if count and hosts else "",
        "steps": f"{max((line.step for line in evidence.metrics), default=0):,}" if evidence.metrics else "",
        **{group: evidence.component(group) for group in ("model", "data", "comm", "sync", "optimizer")},
        "device": str(evidence.option("place.device", "")),
        "folder": str(evidence.folder),
    }
    return [(term, value) for term, value in facts.items() if value]


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    assert "</script" not in script.lower(), "the bundle would end the element that holds it"
    return script


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Charts are drawn in the order of the page.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    environment.filters |= {"cell": _cell, "ms": units.milliseconds}
    return environment


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return units.short(value, 4) if isinstance(value, float) else str(value)
