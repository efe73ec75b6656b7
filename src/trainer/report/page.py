"""The page: everything that a run's folder tells, in one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from trainer.doctor.finding import Finding
from trainer.overlap.evidence import Evidence
from trainer.report import document, figures, history, ranks, series, timeline
from trainer.report.chart import Chart

NAME = "report.html"


def write(evidence: Evidence, findings: Sequence[Finding]) -> Path:
    """Write the page into the run's folder, whole or not at all; its path."""
    return document.write(evidence.folder / NAME, page(evidence, findings))


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
    return document.render(
        "page.html",
        charts,
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
        config=yaml.safe_dump(dict(evidence.config), sort_keys=False, allow_unicode=True) if evidence.config else "",
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
