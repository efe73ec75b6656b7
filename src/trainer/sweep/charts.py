"""Pictures of a ranking: bars for one swept key, a heat map for two, parallel coordinates for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.report import chart, units
from trainer.report.chart import Chart
from trainer.report.palette import var
from trainer.report.series import number
from trainer.sweep.ranking import Entry, Ranking

# A key with more values than this is drawn on a scale, and not value by value.
VALUES = 12
CELL = 42
HEIGHT = 320
TICK: dict[str, Any] = {"type": "text", "align": "right", "dx": -8, "fontSize": 11}


def draw(ranking: Ranking) -> Chart | None:
    """The picture that fits what was swept; None where no run has a value."""
    valued = [entry for entry in ranking.entries if entry.place is not None]
    if not valued or not ranking.keys:
        return None
    if len(ranking.keys) == 1:
        return _bars(ranking, valued)
    if len(ranking.keys) == 2 and len(valued) > 1 and _fills(ranking):
        return _heat_map(ranking)
    return _coordinates(ranking, valued)


def _fills(ranking: Ranking) -> bool:
    """Whether the runs are a grid, more or less: single points are lost in a large map."""
    first, second = (len(_values(ranking.entries, key)) for key in ranking.keys)
    return 2 * len(ranking.entries) >= first * second


def _bars(ranking: Ranking, valued: Sequence[Entry]) -> Chart:
    (key,) = ranking.keys
    rows = [
        {
            "at": entry.settings[key],
            "value": entry.result.value,
            "says": _says(ranking, entry),
            "best": entry.place == 1,
        }
        for entry in valued
    ]
    spec = chart.spec(
        HEIGHT,
        data={"values": rows},
        mark={"type": "bar", "aria": False},
        encoding={
            "x": {
                "field": "at",
                "type": "nominal",
                "sort": _values(valued, key),
                "axis": {"title": key, "labelAngle": 0},
            },
            "y": {"field": "value", "type": "quantitative", "axis": {"title": ranking.options.title, "tickCount": 5}},
            "color": {"condition": {"test": "datum.best", "value": var("series2")}, "value": var("series")},
            "tooltip": {"field": "says"},
        },
    )
    return Chart("settings", f"By {key}", f"{ranking.options.title} of each run.", spec, [("series2", "the best run")])


def _heat_map(ranking: Ranking) -> Chart:
    across, down = ranking.keys
    goodness = _goodness(ranking)
    rows = [
        {
            "x": entry.settings[across],
            "y": entry.settings[down],
            "good": goodness(entry),
            "label": entry.result.status if entry.result.value is None else units.short(entry.result.value, 4),
            "best": entry.place == 1,
            "says": _says(ranking, entry),
        }
        # The best is drawn last, over its neighbours.
        for entry in reversed(ranking.entries)
    ]
    ys = _values(ranking.entries, down)
    x = {"field": "x", "type": "nominal", "sort": _values(ranking.entries, across)}
    y = {"field": "y", "type": "nominal", "sort": ys}
    spec = chart.spec(
        CELL * len(ys),
        data={"values": rows},
        encoding={
            "x": {**x, "axis": {"title": across, "labelAngle": 0, "domain": False, "ticks": False}},
            "y": {**y, "axis": {"title": down}},
            # Of both layers: the text is in the way of its cell.
            "tooltip": {"field": "says"},
        },
        layer=[
            {
                "name": "cells",
                "mark": {"type": "rect", "fill": var("series"), "strokeWidth": 3, "aria": False},
                "encoding": {
                    "fillOpacity": {"field": "good", "type": "quantitative", "scale": None},
                    "stroke": {"condition": {"test": "datum.best", "value": var("series2")}, "value": var("paper")},
                },
            },
            {
                "name": "values",
                # A run without a value has a cell too, and says why there.
                "mark": {"type": "text", "fill": var("ink"), "fontSize": 12, "aria": False},
                "encoding": {"text": {"field": "label"}},
            },
        ],
    )
    says = f"{ranking.options.title} of each run; the stronger the colour, the better."
    return Chart("settings", f"{across} and {down}", says, spec, [("series2", "the best run")])


def _coordinates(ranking: Ranking, valued: Sequence[Entry]) -> Chart:
    goodness = _goodness(ranking)
    title = ranking.options.title
    axes = [*ranking.keys, title]
    columns = {
        **{key: {entry.job: entry.settings[key] for entry in valued} for key in ranking.keys},
        title: {entry.job: str(entry.result.value) for entry in valued},
    }
    marks: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for at, (axis, column) in enumerate(columns.items()):
        heights, ticks = _scale(list(column.values()), by_value=axis != title)
        marks += [{"axis": axis, "y": y, "label": label} for y, label in ticks]
        points += [
            {
                "axis": axis,
                "at": at,
                "y": heights[column[entry.job]],
                "job": entry.job,
                "good": goodness(entry),
                "best": entry.place == 1,
                "says": _says(ranking, entry),
            }
            # The best is drawn last, on top.
            for entry in reversed(valued)
        ]
    x = {"field": "axis", "type": "nominal", "sort": axes, "scale": {"type": "point", "padding": 0.4}}
    y = {"field": "y", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": None}
    labels = {"title": None, "labelAngle": 0, "orient": "top", "domain": False, "ticks": False, "labelLimit": 240}
    best = {"test": "datum.best", "value": var("series2")}
    shade = {"field": "good", "type": "quantitative", "scale": None}
    spec = chart.spec(
        HEIGHT,
        encoding={"x": {**x, "axis": {**labels, "grid": True}}, "y": y},
        layer=[
            {
                "name": "runs",
                "data": {"values": points},
                "mark": {"type": "line", "aria": False, "point": {"size": 60, "opacity": 1}},
                "encoding": {
                    "detail": {"field": "job"},
                    "order": {"field": "at", "type": "quantitative"},
                    "color": {"condition": best, "value": var("series")},
                    "opacity": {**shade, "condition": {"test": "datum.best", "value": 1}},
                    "strokeWidth": {"condition": {"test": "datum.best", "value": 3}, "value": 1.5},
                    "tooltip": {"field": "says"},
                },
            },
            # Twice: the lines that pass under a text are kept off it.
            *(
                {
                    "name": name,
                    "data": {"values": marks},
                    "mark": {**TICK, **paint, "aria": False},
                    "encoding": {"text": {"field": "label"}},
                }
                for name, paint in (
                    ("halo", {"stroke": var("paper"), "strokeWidth": 4, "fill": var("paper")}),
                    ("marks", {"fill": var("ink")}),
                )
            ),
        ],
    )
    says = f"A line for each run through its values to its {title}; the stronger the colour, the better."
    return Chart("settings", "All that was swept", says, spec, [("series2", "the best run")])


def _scale(values: Sequence[str], by_value: bool) -> tuple[dict[str, float], list[tuple[float, str]]]:
    """Where each of a key's values lies between 0 and 1, and what is written along the axis."""
    ordered = _ordered(values)
    numbers = [_as_number(value) for value in ordered]
    if (by_value and len(ordered) <= VALUES) or None in numbers:
        places = {value: (at + 0.5) / len(ordered) for at, value in enumerate(ordered)}
        return places, [(y, value) for value, y in places.items()] if len(ordered) <= VALUES else []
    known = [value for value in numbers if value is not None]
    low, wide = min(known), (max(known) - min(known)) or 1.0
    places = {value: 0.05 + 0.9 * (place - low) / wide for value, place in zip(ordered, known, strict=True)}
    ticks = [(0.05 + 0.9 * at / 4, units.short(low + wide * at / 4, 4)) for at in range(5)]
    return places, ticks if max(known) > low else ticks[:1]


def _goodness(ranking: Ranking) -> Any:
    """How strong a run's colour is, from 0.12, the worst, to 0.62, on which text is readable; 0 without a value."""
    known = [value for entry in ranking.entries if (value := entry.result.value) is not None]
    low, wide = min(known), max(known) - min(known)

    def good(entry: Entry) -> float:
        value = number(entry.result.value)
        if value is None:
            return 0.0
        share = (value - low) / wide if wide else 1.0
        return round(0.12 + 0.5 * (share if ranking.options.largest_first else 1 - share), 3)

    return good


def _values(entries: Sequence[Entry], key: str) -> list[str]:
    return _ordered([entry.settings[key] for entry in entries])


def _ordered(values: Sequence[str]) -> list[str]:
    """Distinct values, numbers by their size and words as they come in the alphabet."""
    distinct = set(values)
    if all(_as_number(value) is not None for value in distinct):
        return sorted(distinct, key=lambda value: _as_number(value) or 0.0)
    return sorted(distinct)


def _as_number(text: str) -> float | None:
    try:
        return number(float(text))
    except ValueError:
        return None


def _says(ranking: Ranking, entry: Entry) -> str:
    value = entry.result.reason if entry.result.value is None else units.short(entry.result.value, 4)
    settings = [f"{key}={value}" for key, value in entry.settings.items()]
    return "\n".join([f"run {entry.job}: {entry.result.status}", *settings, f"{ranking.options.title}: {value or '-'}"])
