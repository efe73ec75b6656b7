"""`tune`: whether a run trains, or finds out under which settings it would train fastest."""

from __future__ import annotations

from trainer.spec import Component


class Tune(Component):
    """Train."""
