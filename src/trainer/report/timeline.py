"""One typical step, span by span: as a chart of the page, as an image and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.overlap import stages
from trainer.overlap.evidence import Event, Evidence, Window
from trainer.overlap.meter import AWAITS
from trainer.report import lanes, spans, units
from trainer.report.chart import Chart, Table
from trainer.report.palette import fixed
from trainer.report.spans import Bar
from trainer.report.timeline_spec import MEANING, timeline_spec

COLUMNS = ["rank", "lane", "name", "start_ms", "end_ms", "size_mb", "sent_mb", "gbit_per_s", "queued_ms"]


def draw(evidence: Evidence) -> Chart | None:
    """The timeline for the page; None without a recorded step."""
    window = evidence.timeline()
    if window is None or not window.timeline:
        return None
    everyone = window.timeline
    ranks = lanes.shown(everyone)
    named = lanes.names(everyone, ranks)
    bars = [bar for bar in _bars(evidence, window) if bar.rank in ranks]
    if not bars:
        return None
    queues = lanes.queues(bars, ranks)
    exposed = [
        {"start": round(start, 3), "end": round(end, 3), "y": at, "y2": at + 1}
        for at, rank in enumerate(ranks)
        for start, end in spans.exposed(everyone[rank])
    ]
    says = _says(window, len(ranks))
    kinds = {bar.kind for bar in bars} | ({"queue"} if queues else set()) | ({"exposed"} if exposed else set())
    return Chart(
        "timeline",
        f"Step {window.step}, span by span",
        says,
        timeline_spec(lanes.placed(bars, ranks, named), queues, exposed, named, lanes.height(bars)),
        [(kind, meaning) for kind, meaning in MEANING.items() if kind in kinds],
        _numbers(window, bars),
    )


def image(evidence: Evidence) -> bytes | None:
    """The timeline as a PNG; None without a recorded step."""
    drawn = draw(evidence)
    if drawn is None:
        return None
    # It brings a JavaScript engine, which a training that draws nothing need not load.
    import vl_convert

    name = str(evidence.option("name", evidence.folder.name))
    spec = drawn.spec | {"title": f"{name}: {drawn.title}", "width": 1200, "background": "white", "padding": 12}
    # A page has its legend in markup; an image needs it drawn.
    legend = {"title": None, "orient": "bottom", "columns": 4, "values": [kind for kind, _ in drawn.legend]}
    legend["labelExpr"] = f"({MEANING})[datum.label]"
    legend["labelLimit"] = 400
    for layer in spec["layer"]:
        if "fill" in layer["encoding"]:
            layer["encoding"]["fill"]["legend"] = legend
    png: bytes = vl_convert.vegalite_to_png(fixed(spec), scale=2)
    return png


def table(evidence: Evidence) -> tuple[list[str], list[list[Any]]] | None:
    """The bars of all ranks as columns and rows; None without a recorded step."""
    window = evidence.timeline()
    if window is None or not window.timeline:
        return None
    rows = []
    for bar in _bars(evidence, window):
        sizes = [bar.size / 1e6, bar.sent / 1e6, bar.gbit_per_s, bar.queued_ms]
        rows.append([bar.rank, bar.kind, bar.name, bar.start_ms, bar.end_ms, *sizes])
    return COLUMNS, rows


def _bars(evidence: Evidence, window: Window) -> list[Bar]:
    return spans.bars(window.timeline or [], serial=evidence.option("place.device") == "cuda")


def _says(window: Window, shown: int) -> str:
    everyone = window.timeline or []
    end = max((event.end_ms for events in everyone for event in events), default=0.0)
    says = f"One typical step: {units.milliseconds(end)}. Each rank has two tracks: what it computes, and what travels."
    if any(spans.held(everyone)):
        says = (
            f"One typical step: {units.milliseconds(end)}. Each rank has tracks for what it computes, the buckets of"
            " gradients that travel, and what it sends to its neighbours. F3 is the forward pass of micro-batch 3, B3"
            f" its backward pass{_second_parts(everyone)}.{_bubble(window)}"
        )
        if shown < len(everyone):
            says += f" Of {len(everyone)} ranks, the {shown} of the pipeline with the most work are shown."
    elif shown < len(everyone):
        says += f" Of {len(everyone)} ranks, {shown} are shown: the fastest by its own work, the slowest, some between."
    return says


def _second_parts(everyone: Sequence[Sequence[Event]]) -> str:
    """What else stands in the bars: the second part of split backward passes, and stages where a rank has several."""
    pieces = {piece for events in everyone for event in events if (piece := stages.piece(event.name))}
    weights = " and W3 the second part of that" if any(piece.weights for piece in pieces) else ""
    several = any(len(held) > 1 for held in spans.held(everyone))
    return weights + ("; s1 is stage 1 of those that a rank has" if several else "")


def _bubble(window: Window) -> str:
    """A sentence on the share of the window's steps in which ranks wait for neighbouring stages."""
    measured = [sums for sums in window.ranks if sums.get("step")]
    step = sum(sums["step"] for sums in measured)
    waited = sum(sums.get(lane, 0.0) for sums in measured for lane in AWAITS)
    return f" The bubble takes {units.share(waited / step)} of the ranks' time." if step else ""


def _numbers(window: Window, bars: Sequence[Bar]) -> Table:
    return Table(
        f"Every span of step {window.step}, of the ranks shown",
        ["rank", "what", "from (ms)", "to (ms)", "size (MB)", "sent (MB)", "Gbit/s", "queued (ms)"],
        [
            [
                bar.rank,
                spans.what(bar),
                round(bar.start_ms, 2),
                round(bar.end_ms, 2),
                bar.size / 1e6 or None,
                bar.sent / 1e6 or None,
                bar.gbit_per_s,
                bar.queued_ms or None,
            ]
            for bar in sorted(bars, key=lambda bar: (bar.rank, bar.start_ms))
        ],
    )
