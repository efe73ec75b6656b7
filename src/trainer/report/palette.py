"""The colours of the page and its charts, which the page sets as CSS variables, so that charts follow its theme."""

from __future__ import annotations

import json
from typing import Any

# What a bar or an area stands for. Chosen from Okabe and Ito's palette, moved in lightness so that dark text is
# readable on all of them, and neighbours differ for colour-blind eyes and on grey paper.
KINDS = {
    "data": "#cf8db6",
    "forward": "#a9d8f5",
    "backward": "#4596d1",
    "weights": "#7080f0",
    "bubble": "#e0e0d0",
    "wait": "#e5602a",
    "optimizer": "#2fae84",
    "comm": "#fbe3ad",
    "moves": "#f0ab22",
    "send": "#bcd35f",
    "rest": "#b4bcc6",
}
LIGHT = {
    "ink": "#1a1f26",
    "muted": "#57606a",
    "line": "#d7dde4",
    "paper": "#ffffff",
    "panel": "#f5f7f9",
    "accent": "#0b62a8",
    "series": "#0b62a8",
    "series2": "#c2480f",
    "series3": "#7a3fa8",
    "on-bar": "#14181d",
    "exposed": "#fbe3d9",
    "queue": "#d9a441",
    **KINDS,
}
DARK = {
    **LIGHT,
    "ink": "#e8ecf1",
    "muted": "#a3adb9",
    "line": "#38414c",
    "paper": "#11151a",
    "panel": "#1a2027",
    "accent": "#7cc0f5",
    "series": "#6cb6f2",
    "series2": "#f2894f",
    "series3": "#c39bea",
    "exposed": "#4a2a1d",
}


def var(name: str) -> str:
    """How a spec names a colour."""
    return f"var(--{name})"


def css(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def fixed(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec with the light theme's colours, for an image, which has no theme."""
    text = json.dumps(spec)
    for name, colour in LIGHT.items():
        text = text.replace(var(name), colour)
    resolved: dict[str, Any] = json.loads(text)
    return resolved


CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": var("muted"),
        "titleColor": var("muted"),
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": var("line"),
        "domainColor": var("line"),
        "tickColor": var("line"),
    },
    "axisX": {"grid": False},
    "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
    # Screen readers get the chart's description and its table; hundreds of unnamed marks would only be in the way.
    "aria": True,
}
