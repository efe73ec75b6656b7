"""The Vega-Lite spec of a timeline, from bars that have their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.report import chart
from trainer.report.chart import Spec
from trainer.report.palette import var
from trainer.report.spans import THREAD

MEANING = {
    "data": "waits for data",
    "forward": "forward",
    "backward": "backward",
    "weights": "backward, gradients of weights",
    "bubble": "bubble: waits for a neighbouring stage",
    "wait": "waits for gradients",
    "optimizer": "optimizer",
    "comm": "bucket: encoding, or waiting for slower ranks",
    "moves": "bucket: bytes move",
    "send": "sends to other parts of the model",
    "queue": "bucket queued behind others",
    "exposed": "exposed: gradients travel and nothing computes",
}

# Per bar, in pixels; a label that does not fit is left out, since a tooltip and the table have it.
WIDTH = "(scale('x', datum.end) - scale('x', datum.start) - 8)"
FITS = "{0} >= 6.4 * length(datum.{1})"
LABEL = f"{FITS.format(WIDTH, 'label')} ? datum.label : {FITS.format(WIDTH, 'brief')} ? datum.brief : ''"

Rows = Sequence[dict[str, Any]]


def timeline_spec(bars: Rows, queues: Rows, exposed: Rows, lanes: Sequence[str], lane_px: int) -> Spec:
    """`lanes` names the ranks from the top; bars, queues and exposed times have `start`, `end`, `y` and `y2`."""
    end = max((bar["end"] for bar in bars), default=1.0)
    start = min((bar["start"] for bar in bars), default=0.0)
    x = {
        "field": "start",
        "type": "quantitative",
        "scale": {"domain": [start, end], "nice": False},
        "axis": {"title": "ms since the first rank began the step", "tickCount": 8},
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"domain": [len(lanes), 0], "nice": False},
        "axis": {
            "title": None,
            "values": [at + 0.5 for at in range(len(lanes))],
            "labelExpr": "lanes[floor(datum.value)]",
            "grid": False,
            "labelColor": var("ink"),
            "labelLimit": 190,
        },
    }
    place = {"x": x, "x2": {"field": "end"}, "y": y, "y2": {"field": "y2"}}
    fill = {
        "field": "kind",
        "type": "nominal",
        "scale": chart.colours({kind: kind for kind in MEANING}),
        "legend": None,
    }
    bar = {"type": "rect", "clip": True}
    # Exchanges may follow each other closely, and a seam between them would hide the short ones.
    seam = {"stroke": var("paper"), "strokeWidth": 0.7}
    return chart.spec(
        lane_px * len(lanes),
        params=[{"name": "lanes", "value": list(lanes)}],
        layer=[
            {
                "name": "exposed",
                "data": {"values": list(exposed)},
                "mark": {"type": "rect", "clip": True, "fill": var("exposed"), "aria": False},
                "encoding": place,
                "params": [
                    {
                        "name": "zoom",
                        "bind": "scales",
                        # A plain wheel scrolls the page.
                        "select": {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.shiftKey]"},
                    }
                ],
            },
            {
                "name": "borders",
                "data": {"values": [{"y": at} for at in range(1, len(lanes))]},
                "mark": {"type": "rule", "stroke": var("line"), "aria": False},
                "encoding": {"y": y},
            },
            {
                "name": "queues",
                "data": {"values": list(queues)},
                "mark": {"type": "rect", "clip": True, "fill": var("queue"), "aria": False},
                "encoding": place,
            },
            *(
                {
                    "name": name,
                    "data": {"values": [row for row in bars if row["kind"] in kinds]},
                    "mark": bar if name == "moves" else bar | seam,
                    "encoding": place | {"fill": fill, "tooltip": {"field": "said"}, "description": {"field": "said"}},
                }
                for name, kinds in (
                    ("spans", THREAD),
                    ("buckets", ("comm",)),
                    ("moves", ("moves",)),
                    ("sends", ("send",)),
                )
            ),
            {
                "name": "labels",
                "data": {"values": [row for row in bars if row["label"]]},
                "mark": {
                    "type": "text",
                    "clip": True,
                    "align": "left",
                    "dx": 4,
                    "fontSize": 11,
                    "fill": var("on-bar"),
                    "aria": False,
                    "text": {"expr": LABEL},
                    "interactive": False,
                },
                "encoding": {"x": x, "y": y | {"field": "middle"}},
                "transform": [{"calculate": "(datum.y + datum.y2) / 2", "as": "middle"}],
            },
        ],
    )
