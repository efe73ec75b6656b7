"""A preset as it is written for readers: its variables, and the comments that say why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import yaml

FOLDER = Path(__file__).resolve().parents[4] / "conf" / "nccl"


class Preset(NamedTuple):
    name: str
    what: str
    """the comment at its top"""
    variables: list[tuple[str, str, str]]
    """name, value and why"""
    notes: str
    """what else the comments among the variables say"""


def presets() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read(name: str) -> Preset:
    """The preset `conf/nccl/<name>.yaml`."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text).get("env") or {}
    lines = text.splitlines()
    top = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    within = [line.strip() for line in lines if line.startswith((" ", "\t"))]
    return Preset(
        name,
        _joined(lines[:top]),
        [(variable, str(value), _why(variable, lines)) for variable, value in values.items()],
        _joined([line for line in within if line.startswith("#")]),
    )


def _why(variable: str, lines: list[str]) -> str:
    for line in lines:
        found = re.match(rf"\s+{re.escape(variable)}:.*?\s#\s*(.*)", line)
        if found:
            return found.group(1)
    return ""


def _joined(comments: list[str]) -> str:
    return " ".join(line.lstrip("# ").rstrip() for line in comments)
