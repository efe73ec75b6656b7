"""The page of a sweep: what was swept against what came of it, in one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from trainer.report import document, units
from trainer.report import page as report
from trainer.sweep import charts
from trainer.sweep.ranking import Ranking

NAME = "sweep.html"


def write(ranking: Ranking, sweep: Path) -> Path:
    """Write the page into the folder of the sweep, whole or not at all; its path."""
    return document.write(sweep / NAME, page(ranking, sweep))


def page(ranking: Ranking, sweep: Path) -> str:
    """The HTML of the sweep; runs with a page of their own are linked to it, from the folder of the sweep."""
    drawn = charts.draw(ranking)
    return document.render(
        "sweep.html",
        [drawn] if drawn else [],
        folder=Path(__file__).parent,
        name=f"{sweep.resolve().parent.name}/{sweep.resolve().name}",
        headline=_headline(ranking),
        glance=_glance(ranking),
        chart=drawn,
        title=ranking.options.title,
        keys=ranking.keys,
        entries=ranking.entries,
        pages={
            entry.job: f"{entry.job}/{report.NAME}"
            for entry in ranking.entries
            if (sweep / entry.job / report.NAME).is_file()
        },
    )


def _headline(ranking: Ranking) -> str:
    best = ranking.best
    if best is None or best.result.value is None:
        return ranking.nobody_wrote or "No run was done."
    settings = " ".join(f"{key}={value}" for key, value in best.settings.items()) or "what all runs share"
    return (
        f"The best {ranking.options.title} is {units.short(best.result.value, 4)}, in run {best.job} with {settings}."
    )


def _glance(ranking: Ranking) -> list[tuple[str, str]]:
    results = [entry.result for entry in ranking.entries]
    values = [result.value for result in results if result.value is not None]
    counts = {status: sum(result.status == status for result in results) for status in ("done", "failed", "refused")}
    unended = len(results) - sum(counts.values())
    found = [(label, str(count)) for label, count in {**counts, "not ended": unended}.items() if count]
    if len(values) > 1:
        best, worst = (max(values), min(values)) if ranking.options.largest_first else (min(values), max(values))
        found += [("best", units.short(best, 4)), ("worst", units.short(worst, 4))]
    return [*found, ("seconds in all", units.short(sum(result.seconds for result in results)))]
