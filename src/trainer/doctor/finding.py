"""What the doctor says about a run."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that costs time, and the one change to try."""

    title: str
    """what is wrong, in a line"""
    evidence: str
    """the measured values that say so, in sentences"""
    advice: str
    """what to type: an option of train.py, or a command"""
    gain_ms: float | None
    """the milliseconds of a step that the change is expected to save; None where that cannot be predicted"""
