"""What tune=advise predicts of every setting, beside what the setting takes: error, ranking, and what was chosen."""

from __future__ import annotations

import itertools
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import vl_convert

from scripts.bench import pairs
from scripts.bench.case import Case, Variant
from scripts.bench.lab import measure as measure_case
from scripts.bench.table import Table
from trainer.tune.profile import Profile, read
from trainer.tune.program import Choice, program
from trainer.tune.simulate import simulate

PROFILE = "profile"
PICTURE = "predictor.png"
# Settings from most corners of the space; nothing in the model was fitted to any of them.
CHOICES = (
    *(Choice("allreduce", "strict", size) for size in (1.0, 5.0, 25.0, 100.0)),
    *(Choice("fp16", "strict", size) for size in (5.0, 25.0)),
    *(Choice(hook, "strict", 25.0) for hook in ("int8", "onebit", "topk")),
    *(Choice(hook, "next_forward") for hook in ("allreduce", "fp16", "onebit", "topk")),
    Choice("allreduce", "partitioned", 5.0),
    Choice("allreduce", "delayed", 25.0),
)
MODELS = {
    "ResNet-18 on 32x32 images": ("model=resnet", "data=synthetic", "batch.size=16", "optimizer.lr=0.001"),
    "ResNet-50, replayed": ("model=replay", "model.table=resnet50", "data=synthetic", "batch.size=16"),
}
CELLS = tuple(itertools.product(MODELS, (2, 4), ("100mbit", "1gbit", "none")))
ROUNDS, STEPS = 3, 2


class Point(NamedTuple):
    """A setting in one cell of the grid; seconds a step."""

    choice: Choice
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured) / self.measured


def measure(quick: bool) -> Iterator[Table]:
    """A table a cell of the grid, then one over all cells."""
    cells: dict[str, list[Point]] = {}
    for model, ranks, rate in [("ResNet-18 on 32x32 images", 2, "none")] if quick else CELLS:
        points, setting = _cell(model, ranks, rate, quick)
        title = f"{model}, {ranks} hosts, {'unshaped' if rate == 'none' else rate}"
        cells[title] = points
        yield _table(title, setting, points)
    yield _summary(cells)


def draw(tables: Sequence[Table], folder: Path) -> None:
    """The picture of all points, predicted over measured, into the docs' folder."""
    values = [
        {"cell": table.title, "measured": point["measured"], "predicted": point["predicted"]}
        for table in tables[:-1]
        for point in table.numbers["points"]
    ]
    ends = [min(value["measured"] for value in values) / 1.2, max(value["measured"] for value in values) * 1.2]
    scale = {"type": "log", "domain": ends}
    (folder / PICTURE).write_bytes(vl_convert.vegalite_to_png(_spec(values, ends, scale), scale=2))


def tau(points: Sequence[Point]) -> float:
    """Kendall's tau between predicted and measured steps: of all pairs, those in the same order less the others."""
    signs = [
        (one.measured - other.measured) * (one.predicted - other.predicted)
        for one, other in itertools.combinations(points, 2)
    ]
    return sum((sign > 0) - (sign < 0) for sign in signs) / len(signs)


def regret(points: Sequence[Point]) -> float:
    """How much longer the setting predicted best takes than the one measured best, as a share of the latter."""
    chosen = min(points, key=lambda point: point.predicted)
    return chosen.measured / min(point.measured for point in points) - 1


def _cell(model: str, ranks: int, rate: str, quick: bool) -> tuple[list[Point], str]:
    with tempfile.TemporaryDirectory(prefix="predictor-") as folder:
        path = Path(folder) / "profile.json"
        variants = [Variant(PROFILE, "profile", options={"path": str(path)})]
        variants += [Variant(_name(choice), "ours", _overrides(choice)) for choice in CHOICES]
        case = Case("Predictor", tuple(variants), PROFILE, MODELS[model], ranks, rate, rounds=ROUNDS, steps=STEPS)
        case = case.shortened() if quick else case
        seconds = measure_case(case).seconds
        return _points(
            read(path), seconds
        ), f"`{' '.join(case.overrides)}`; {case.rounds} rounds of {case.steps} steps."


def _points(profile: Profile, seconds: Mapping[str, Sequence[float]]) -> list[Point]:
    return [
        Point(choice, pairs.spread(seconds[_name(choice)]).median, simulate(program(profile, choice)).step_s)
        for choice in CHOICES
    ]


def _name(choice: Choice) -> str:
    return " ".join(_overrides(choice))


def _overrides(choice: Choice) -> tuple[str, ...]:
    settings = [f"comm={choice.comm}"]
    if choice.sync != "strict":
        settings.append(f"sync={choice.sync}")
    if choice.sync == "delayed":
        settings.append("sync.warmup_steps=0")
    if choice.bucket_cap_mb is not None:
        settings.append(f"parallel.data.bucket_cap_mb={choice.bucket_cap_mb:g}")
    return tuple(settings)


def _table(title: str, setting: str, points: Sequence[Point]) -> Table:
    rows = [
        [_name(point.choice), f"{point.measured * 1000:.0f}", f"{point.predicted * 1000:.0f}", f"{point.error:.1%}"]
        for point in points
    ]
    plain = [point._asdict() | {"choice": _name(point.choice)} for point in points]
    return Table(title, setting, ["settings", "measured, ms", "predicted, ms", "error"], rows, {"points": plain})


def _summary(cells: Mapping[str, Sequence[Point]]) -> Table:
    rows = []
    for title, points in cells.items():
        errors = [point.error for point in points]
        figures = (
            f"{statistics.median(errors):.1%}",
            f"{max(errors):.1%}",
            f"{tau(points):.2f}",
            f"{regret(points):.1%}",
        )
        rows.append([title, *figures])
    errors = [point.error for points in cells.values() for point in points]
    rows.append(["all", f"{statistics.median(errors):.1%}", f"{max(errors):.1%}", "", ""])
    columns = ["cell", "median error", "worst", "Kendall's tau", "chosen over best"]
    return Table("Errors of the predicted step", "From the tables above.", columns, rows)


def _spec(values: list[dict[str, Any]], ends: list[float], scale: dict[str, Any]) -> dict[str, Any]:
    line = [{"measured": end, "predicted": end} for end in ends]
    axes = {
        name: {"field": name, "type": "quantitative", "scale": scale, "title": f"{name}, s"}
        for name in ("measured", "predicted")
    }
    place = {"x": axes["measured"], "y": axes["predicted"]}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 480,
        "height": 480,
        "layer": [
            {"data": {"values": line}, "mark": {"type": "line", "color": "gray"}, "encoding": place},
            {
                "data": {"values": values},
                "mark": "point",
                "encoding": {**place, "color": {"field": "cell", "type": "nominal", "sort": None}},
            },
        ],
    }
