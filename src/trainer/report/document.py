"""What pages of charts have in common: the frame, the script that draws, and how they are written."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from trainer.report import palette, units
from trainer.report.chart import Chart
from trainer.whole_file import write_whole


def render(template: str, charts: Sequence[Chart], folder: Path | None = None, **values: Any) -> str:
    """The HTML of a template that extends frame.html, from `folder` or from here, with all that its charts need."""
    return (
        _environment(folder or Path(__file__).parent)
        .get_template(template)
        .render(
            specs={chart.key: chart.spec | {"description": f"{chart.title}. {chart.says}"} for chart in charts},
            bundle=_bundle() if charts else "",
            light=palette.css(palette.LIGHT),
            dark=palette.css(palette.DARK),
            **values,
        )
    )


def write(path: Path, html: str) -> Path:
    """Write the page, whole or not at all; its path."""
    write_whole(path, html)
    return path


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    assert "</script" not in script.lower(), "the bundle would end the element that holds it"
    return script


def _environment(folder: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, folder]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Charts are drawn in the order of the page.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    environment.filters |= {"cell": _cell, "ms": units.milliseconds}
    return environment


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return units.short(value, 4) if isinstance(value, float) else str(value)
