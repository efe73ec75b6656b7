"""What the page shows of a chart: a Vega-Lite spec, what it says in words, and its numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainer.report.palette import CONFIG, var

Spec = dict[str, Any]


class Table(NamedTuple):
    caption: str
    columns: list[str]
    rows: list[list[Any]]


class Chart(NamedTuple):
    key: str
    """its id in the page"""
    title: str
    says: str
    """what there is to see, for all readers; it stands under the title and describes the chart to a screen reader"""
    spec: Spec
    legend: list[tuple[str, str]]
    """(colour, meaning); in the page's own markup, where it wraps on narrow screens"""
    table: Table | None = None
    """its numbers, where no other table of the page has them"""


def spec(height: int, **parts: Any) -> Spec:
    """A spec as wide as its place in the page."""
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        **parts,
    }


def colours(kinds: dict[str, str]) -> dict[str, Any]:
    """A colour scale from what a mark is called to its variable; `kinds` is {name: variable}."""
    return {"domain": list(kinds), "range": [var(name) for name in kinds.values()]}
