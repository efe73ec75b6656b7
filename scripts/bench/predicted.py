"""Predictions beside measurements: their errors, whether they rank alike, tables and a picture."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scripts.bench import pairs
from scripts.bench.table import Table


class Point(NamedTuple):
    """One setting in one cell of a grid."""

    name: str
    rounds: Sequence[float]
    """seconds a step, of each round"""
    predicted: float
    """seconds a step"""

    @property
    def measured(self) -> float:
        return pairs.spread(self.rounds).median

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured) / self.measured


def tau(points: Sequence[Point], clear: bool = False) -> float:
    """Kendall's tau between predicted and measured steps: of all pairs, those in the same order less the others.

    `clear` leaves only pairs of which the same one was faster in every round.
    """
    signs = [
        (one.measured - other.measured) * (one.predicted - other.predicted)
        for one, other in itertools.combinations(points, 2)
        if not clear or _ordered(one, other)
    ]
    return sum((sign > 0) - (sign < 0) for sign in signs) / len(signs) if signs else 1.0


def _ordered(one: Point, other: Point) -> bool:
    return len({mine < theirs for mine, theirs in zip(one.rounds, other.rounds, strict=True)}) == 1


def regret(points: Sequence[Point]) -> float:
    """How much longer the setting predicted best takes than the one measured best, as a share of the latter."""
    chosen = min(points, key=lambda point: point.predicted)
    return chosen.measured / min(point.measured for point in points) - 1


def by_rounds(points: Sequence[Point]) -> Iterator[list[Point]]:
    """The points as each round predicts the others: how well measuring once would do, and what noise leaves to do."""
    for number in range(len(points[0].rounds)):
        yield [Point(one.name, [*one.rounds[:number], *one.rounds[number + 1 :]], one.rounds[number]) for one in points]


def errors(points: Iterable[Point]) -> str:
    """The median and the worst error, in words."""
    found = [point.error for point in points]
    return f"median {statistics.median(found):.1%}, worst {max(found):.1%}"


def table(title: str, setting: str, points: Sequence[Point]) -> Table:
    rows = [
        [point.name, f"{point.measured * 1000:.0f}", f"{point.predicted * 1000:.0f}", f"{point.error:.1%}"]
        for point in points
    ]
    plain = [point._asdict() | {"measured": point.measured} for point in points]
    return Table(title, setting, ["settings", "measured, ms", "predicted, ms", "error"], rows, {"points": plain})


def summary(setting: str, cells: Mapping[str, Sequence[Point]], afar: Mapping[str, Sequence[Point]]) -> Table:
    """A row a cell; `afar` are some cells' points as a profile of another cell predicts them."""
    rows = []
    for title, points in cells.items():
        rounds = list(by_rounds(points))
        figures = [
            f"{tau(points):.2f}",
            f"{statistics.mean(map(tau, rounds)):.2f}",
            f"{tau(points, clear=True):.2f}",
            f"{regret(points):.1%}",
            f"{statistics.mean(map(regret, rounds)):.1%}",
        ]
        rows.append([title, errors(points), *figures, errors(afar[title]) if title in afar else ""])
    whole, far = itertools.chain(*cells.values()), list(itertools.chain(*afar.values()))
    rows.append(["all", errors(whole), "", "", "", "", "", errors(far) if far else ""])
    columns = [
        "cell",
        "error",
        "Kendall's tau",
        "a round's tau",
        "tau of clear pairs",
        "chosen over best",
        "a round's choice",
        "error, profiled on 2 hosts",
    ]
    return Table("Errors of the predicted step", setting, columns, rows)


def picture(tables: Sequence[Table]) -> dict[str, Any]:
    """All points of tables, predicted over measured, in Vega-Lite."""
    values = [
        {"cell": one.title, "measured": point["measured"], "predicted": point["predicted"]}
        for one in tables
        for point in one.numbers["points"]
    ]
    ends = [min(value["measured"] for value in values) / 1.2, max(value["measured"] for value in values) * 1.2]
    scale = {"type": "log", "domain": ends}
    x, y = (
        {"field": name, "type": "quantitative", "scale": scale, "title": f"{name}, s"}
        for name in ("measured", "predicted")
    )
    place = {"x": x, "y": y}
    colours = {
        "field": "cell",
        "type": "nominal",
        "sort": None,
        "scale": {"scheme": "category20"},
        "legend": {"labelLimit": 0},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 480,
        "height": 480,
        "layer": [
            {
                "data": {"values": [{"measured": end, "predicted": end} for end in ends]},
                "mark": {"type": "line", "color": "gray"},
                "encoding": place,
            },
            {
                "data": {"values": values},
                "mark": "point",
                "encoding": {**place, "color": colours},
            },
        ],
    }
