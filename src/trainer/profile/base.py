"""`profile`: what a run records about itself beyond its metrics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.spec import Component


class Profile(Component):
    """Recordings of a few steps, off unless asked for."""

    ablation_every: Annotated[int, Field(ge=1)] | None = None
    """the number of steps after which one is repeated without communication, to measure what that costs; null never"""
    record_replay: bool = False
    """whether to write replay.csv, the layers' times and sizes, which model=replay rehearses anywhere"""
