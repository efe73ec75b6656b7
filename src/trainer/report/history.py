"""Charts over the steps of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.overlap.metrics import PIPELINE_MILLISECONDS
from trainer.report import chart
from trainer.report.chart import Chart, Spec, Table
from trainer.report.palette import var
from trainer.report.series import History

# What a step is made of, in the order in which it happens; what is left of it is the rest. All that a pipeline's ranks
# wait for neighbouring stages is one part, `bubble`.
PARTS = {
    "speed/data_wait_ms": ("waits for data", "data"),
    "speed/forward_ms": ("forward", "forward"),
    "speed/backward_ms": ("backward", "backward"),
    "bubble": ("bubble of the pipeline", "bubble"),
    "overlap/exposed_ms": ("exposed communication", "wait"),
    "speed/optimizer_ms": ("optimizer", "optimizer"),
}
REST = ("rest", "rest")
# Names of metrics that the table of all charts shows.
COLUMNS = {
    "speed/step_ms": "step (ms)",
    **{name: f"{label} (ms)" for name, (label, _) in PARTS.items()},
    "overlap/bubble_share": "bubble's share of the step",
    "overlap/comm_ms": "communication (ms)",
    "overlap/exposed_share": "exposed share of the step",
    "overlap/hidden_ratio": "hidden share of communication",
    "comm/bytes_sent": "sent (MB)",
    "pipeline/bytes_sent": "sent to neighbouring stages (MB)",
    "comm/compression_ratio": "compression",
    "train/loss": "loss",
    "eval/loss": "evaluation loss",
    "eval/accuracy": "accuracy",
}
HEIGHT = 190


def shares(history: History) -> Chart | None:
    lines = {
        "overlap/exposed_share": ("share of the step that is exposed", "series2"),
        "overlap/hidden_ratio": ("share of communication that is hidden", "series"),
        "overlap/bubble_share": ("share of the step that is bubble", "series3"),
    }
    waits = any("overlap/bubble_share" in row for row in history.rows)
    bubble = " Bubble is time in which ranks wait for neighbouring stages." if waits else ""
    return _lines(
        history,
        "shares",
        "Hidden and exposed",
        "Exposed is time in which gradients travel and nothing computes." + bubble,
        lines,
        {"scale": {"domain": [0, 1]}, "axis": {"format": "%", "tickCount": 5}},
        ".1%",
    )


def parts(history: History) -> Chart | None:
    rows = [row for row in with_bubble(history).of("speed/step_ms", *PARTS) if "speed/step_ms" in row]
    names = {**{name: known for name, known in PARTS.items() if any(name in row for row in rows)}, "rest": REST}
    if len(names) == 1:
        return None
    for row in rows:
        row["rest"] = max(0.0, row["speed/step_ms"] - sum(row.get(name, 0.0) for name in PARTS))
    ceiling = robust([row["speed/step_ms"] for row in rows])
    says = "What a step is made of, as the mean over ranks."
    if ceiling < max(row["speed/step_ms"] for row in rows):
        says += f" Peaks above {ceiling:,.0f} ms, such as the first steps, are cut off."
    stack = _over_steps(
        rows,
        names,
        {"type": "area", "clip": True, "stroke": var("paper"), "strokeWidth": 0.5},
        {"stack": "zero", "scale": {"domain": [0, ceiling]}, "axis": {"title": "ms", "tickCount": 5}},
        ",.2f",
    )
    return _chart("parts", "Where a step's time goes", says, stack, names)


def with_bubble(history: History) -> History:
    """With `bubble`, in ms, where ranks wait for neighbouring stages."""
    waits = tuple(PIPELINE_MILLISECONDS.values())
    return history._replace(
        rows=[
            row | {"bubble": sum(row.get(name, 0.0) for name in waits)} if any(name in row for name in waits) else row
            for row in history.rows
        ]
    )


def sent(history: History) -> Chart | None:
    rows = [{"step": row["step"], "sent": row["comm/bytes_sent"] / 1e6} for row in history.of("comm/bytes_sent")]
    return _lines(
        History(rows, len(rows)),
        "sent",
        "Sent by one rank in a step",
        "By the closed form of the hook's collectives.",
        {"sent": ("MB sent", "series")},
        {"scale": {"zero": True}, "axis": {"title": "MB", "tickCount": 5}},
        ",.3f",
    )


def compression(history: History) -> Chart | None:
    return _lines(
        history,
        "compression",
        "Compression",
        "What the exact average would send, over what is sent.",
        {"comm/compression_ratio": ("compression", "series")},
        {"scale": {"zero": True}, "axis": {"title": "times", "tickCount": 5}},
        ",.2f",
    )


def loss(history: History) -> Chart | None:
    lines = {"train/loss": ("training", "series"), "eval/loss": ("evaluation", "series2")}
    axis = {"scale": {"zero": False}, "axis": {"tickCount": 5}}
    return _lines(history, "loss", "Loss", "Training: mean over ranks of single steps.", lines, axis, ",.4f")


def accuracy(history: History) -> Chart | None:
    lines = {"eval/accuracy": ("accuracy", "series")}
    axis = {"scale": {"zero": False}, "axis": {"format": "%", "tickCount": 5}}
    return _lines(history, "accuracy", "Accuracy", "Over the whole evaluation set.", lines, axis, ".2%")


CHARTS = (shares, parts, sent, compression, loss, accuracy)


def numbers(history: History) -> Table | None:
    """All that the charts show."""
    history = with_bubble(history)
    names = [name for name in COLUMNS if any(name in row for row in history.rows)]
    rows = [
        [int(row["step"])]
        + [row[name] / 1e6 if name.endswith("/bytes_sent") and name in row else row.get(name) for name in names]
        for row in history.of(*names)
    ]
    return Table("The run over its steps", ["step", *(COLUMNS[name] for name in names)], rows) if rows else None


def robust(values: list[float]) -> float:
    """A top for an axis that a few outliers do not press all else flat against the bottom."""
    usual = sorted(values)[int(0.97 * (len(values) - 1))]
    return max(values) if max(values) < 1.5 * usual else 1.15 * usual


def _lines(
    history: History,
    key: str,
    title: str,
    says: str,
    lines: Mapping[str, tuple[str, str]],
    y: dict[str, Any],
    form: str,
) -> Chart | None:
    rows = history.of(*lines)
    names = {name: known for name, known in lines.items() if any(name in row for row in rows)}
    if not names:
        return None
    # A single point is no line.
    mark = {"type": "line", "clip": True, "strokeWidth": 1.8, "point": len(rows) == 1}
    return _chart(key, title, says, _over_steps(rows, names, mark, y, form), names)


def _chart(key: str, title: str, says: str, spec: Spec, names: Mapping[str, tuple[str, str]]) -> Chart:
    legend = [(colour, label) for label, colour in names.values()]
    return Chart(key, title, says, spec, legend if len(legend) > 1 else [])


def _over_steps(
    rows: list[dict[str, float]],
    names: Mapping[str, tuple[str, str]],
    mark: dict[str, Any],
    y: dict[str, Any],
    form: str,
) -> Spec:
    """Columns of `rows` over `step`, and a rule under the pointer that says all their values."""
    fields = {f"v{at}": name for at, name in enumerate(names)}
    values = [
        {"step": row["step"], **{field: _rounded(row[name]) for field, name in fields.items() if name in row}}
        for row in rows
    ]
    x = {
        "field": "step",
        "type": "quantitative",
        "scale": {"nice": False, "zero": False},
        "axis": {"title": "step", "format": ",d", "tickCount": 6, "tickMinStep": 1},
    }
    colour = {
        "field": "name",
        "type": "nominal",
        "scale": chart.colours({field: names[name][1] for field, name in fields.items()}),
        "legend": None,
    }
    paint = {"fill": colour, "order": {"field": "name"}} if mark["type"] == "area" else {"color": colour}
    axis = {"title": None, **y["axis"]}
    tips = [{"field": field, "title": names[name][0], "format": form} for field, name in fields.items()]
    return chart.spec(
        HEIGHT,
        data={"values": values},
        encoding={"x": x},
        layer=[
            {
                "name": "series",
                "transform": [
                    {"fold": list(fields), "as": ["name", "value"]},
                    {"filter": "isValid(datum.value)"},
                ],
                "mark": {**mark, "aria": False},
                "encoding": {"y": {"field": "value", "type": "quantitative", **y, "axis": axis}, **paint},
            },
            {
                "name": "pointer",
                "mark": {"type": "rule", "stroke": var("ink"), "aria": False},
                "encoding": {
                    "opacity": {"condition": {"param": "pointed", "empty": False, "value": 0.6}, "value": 0},
                    "tooltip": [{"field": "step", "format": ",d"}, *tips],
                },
                "params": [
                    {
                        "name": "pointed",
                        "select": {
                            "type": "point",
                            "fields": ["step"],
                            "nearest": True,
                            "on": "pointerover",
                            "clear": "pointerout",
                        },
                    }
                ],
            },
        ],
    )


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
