"""What each rank did, as means over the run: who is slower than the others, and who waits."""

from __future__ import annotations

import statistics
from typing import Any

from trainer.overlap.evidence import Evidence
from trainer.overlap.meter import AWAITS, BYTES
from trainer.report import chart, lanes
from trainer.report.chart import Chart, Table
from trainer.report.history import PARTS, REST
from trainer.report.palette import var
from trainer.report.series import number

# Which of a rank's sums is which part of a step.
SUMS = {
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "bubble": "bubble",
    "exposed": "wait",
    "optimizer": "optimizer",
}
LABELS = {colour: label for label, colour in [*PARTS.values(), REST]}
PEERS = "waits for slower ranks"
MOST = 64
BAR_PX, THIN_PX = 28, 12


def means(evidence: Evidence) -> list[dict[str, float]]:
    """Each rank's sums a step, in ms and bytes, over all windows but the first, which warms up.

    With `bubble`, all that the rank of a pipeline waits for neighbouring stages.
    """
    windows = evidence.windows[1:] or evidence.windows
    count = max((len(window.ranks) for window in windows), default=0)
    everyone: list[dict[str, float]] = []
    for rank in range(count):
        found: dict[str, list[float]] = {}
        for window in windows:
            for name, value in (window.ranks[rank] if rank < len(window.ranks) else {}).items():
                if (good := number(value)) is not None:
                    found.setdefault(name, []).append(good if name in BYTES else good * 1000)
        sums = {name: statistics.fmean(values) for name, values in found.items()}
        bubble = sum(sums.get(lane, 0.0) for lane in AWAITS)
        everyone.append(sums | ({"bubble": bubble} if bubble else {}))
    return everyone


def draw(evidence: Evidence) -> Chart | None:
    """A stacked bar a rank; None for a single one, whose parts the run's own charts have."""
    everyone = means(evidence)
    if len(everyone) < 2 or not any(everyone):
        return None
    held = evidence.stages()
    called = [lanes.called(rank, held[rank]) for rank in range(len(everyone))]
    kinds = [kind for name, kind in SUMS.items() if any(name in sums for sums in everyone)] + ["rest"]
    shown = lanes.chosen([_work(sums) for sums in everyone], MOST, MOST)
    stacked: list[dict[str, Any]] = []
    for rank in shown:
        sums = everyone[rank]
        known = {kind: sums.get(name, 0.0) for name, kind in SUMS.items() if kind in kinds}
        known["rest"] = max(0.0, sums.get("step", 0.0) - sum(known.values()))
        for at, (kind, value) in enumerate(known.items()):
            said = f"{called[rank]}: {LABELS[kind]} {value:,.2f} ms"
            stacked.append({"rank": rank, "kind": kind, "at": at, "ms": round(value, 4), "said": said})
    waits = [
        {"rank": rank, "peers": round(sums["peers"], 4), "said": f"{called[rank]}: {PEERS} {sums['peers']:,.2f} ms"}
        for rank, sums in ((rank, everyone[rank]) for rank in shown)
        if "peers" in sums
    ]
    says = _says(everyone, len(shown))
    axis = {"title": None, "labelExpr": "called[datum.value]", "labelLimit": 190}
    y = {"field": "rank", "type": "ordinal", "axis": axis}
    x = {"type": "quantitative", "axis": {"title": "ms a step", "tickCount": 6, "grid": True}, "scale": {"nice": False}}
    fill = {"field": "kind", "type": "nominal", "scale": chart.colours({kind: kind for kind in kinds}), "legend": None}
    tips = {"tooltip": {"field": "said"}, "description": {"field": "said"}}
    ticks = {
        "name": "waits",
        "data": {"values": waits},
        "mark": {"type": "tick", "color": var("ink"), "thickness": 3, "height": {"band": 0.9}},
        "encoding": {"y": y, "x": {"field": "peers", **x}, **tips},
    }
    spec = chart.spec(
        len(shown) * (BAR_PX if len(shown) <= lanes.MOST else THIN_PX),
        params=[{"name": "called", "value": called}],
        layer=[
            {
                "name": "ranks",
                "data": {"values": stacked},
                "mark": {"type": "bar", "stroke": var("paper"), "strokeWidth": 0.5, "height": {"band": 0.7}},
                "encoding": {
                    "y": y,
                    "x": {"field": "ms", **x},
                    "fill": fill,
                    "order": {"field": "at"},
                    **tips,
                },
            },
            *([ticks] if waits else []),
        ],
    )
    legend = [(kind, LABELS[kind]) for kind in kinds]
    return Chart(
        "ranks", "Rank by rank", says, spec, [*legend, ("ink", PEERS)] if waits else legend, _numbers(everyone)
    )


def _work(sums: dict[str, float]) -> float:
    return sum(sums.get(name, 0.0) for name in SUMS if name not in ("exposed", "bubble"))


def _says(everyone: list[dict[str, float]], shown: int) -> str:
    work = [_work(sums) for sums in everyone]
    most = max(range(len(work)), key=work.__getitem__)
    says = (
        f"Means over the run. Rank {most} has the most work of its own, {work[most]:,.1f} ms a step; "
        f"the median rank has {statistics.median(work):,.1f} ms."
    )
    if shown < len(everyone):
        says += f" Of {len(everyone)} ranks, {shown} are shown, from the least work to the most."
    return says


def _numbers(everyone: list[dict[str, float]]) -> Table:
    columns = {
        "step": "step (ms)",
        **{name: f"{LABELS[kind]} (ms)" for name, kind in SUMS.items()},
        "comm": "communication (ms)",
        "peers": f"{PEERS} (ms)",
        "bytes": "sent (MB)",
        "stage_bytes": "sent to neighbouring stages (MB)",
    }
    pipeline = any("bubble" in sums for sums in everyone)
    known = {
        name: title
        for name, title in columns.items()
        if any(name in sums for sums in everyone) and (pipeline or name != "stage_bytes")
    }
    rows = [
        [rank] + [sums[name] / 1e6 if name in BYTES and name in sums else sums.get(name) for name in known]
        for rank, sums in enumerate(everyone)
    ]
    return Table("Every rank, as means a step", ["rank", *known.values()], rows)
