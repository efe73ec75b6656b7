"""Colours that stay apart, for eyes of all kinds, and can be read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trainer.report.palette import DARK, KINDS, LIGHT

# What linear RGB becomes for an eye without red, or without green, receptors (Viénot, Brettel and Mollon 1999).
EYES = {
    "usual": np.eye(3),
    "no red": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "no green": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
}
# Colours that touch in a chart.
TOUCHING = [
    ("data", "forward"),
    ("forward", "backward"),
    ("backward", "wait"),
    ("wait", "optimizer"),
    ("data", "bubble"),
    ("forward", "bubble"),
    ("backward", "bubble"),
    ("bubble", "wait"),
    ("bubble", "optimizer"),
    ("backward", "weights"),
    ("forward", "weights"),
    ("weights", "bubble"),
    ("weights", "wait"),
    ("backward", "optimizer"),
    ("optimizer", "rest"),
    ("comm", "moves"),
]


def linear(colour: str) -> np.ndarray:
    srgb = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ rgb.clip(0, 1) / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("eye", EYES)
def test_colours_that_touch_differ(eye):
    for one, other in TOUCHING:
        distance = np.linalg.norm(lab(EYES[eye] @ linear(KINDS[one])) - lab(EYES[eye] @ linear(KINDS[other])))
        assert distance > 20, f"{one} and {other}: {distance:.0f}"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(theme):
    for text, ground in itertools.product(("ink", "muted", "accent"), ("paper", "panel")):
        assert contrast(theme[text], theme[ground]) >= 4.5, f"{text} on {ground}"
    for kind in ("forward", "backward", "weights", "optimizer", "comm", "moves", "send"):
        assert contrast(theme["on-bar"], theme[kind]) >= 4.5, f"text on {kind}"
    for line in ("series", "series2", "series3"):
        assert contrast(theme[line], theme["paper"]) >= 3
