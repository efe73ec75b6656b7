"""`profile`: what a run records about itself beyond its metrics."""

from __future__ import annotations

from trainer.spec import Component


class Profile(Component):
    """Recordings of a few steps, off unless asked for."""

    record_replay: bool = False
    """whether to write replay.csv, the layers' times and sizes, which model=replay rehearses anywhere"""
