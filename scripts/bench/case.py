"""What is compared: variants, and the setting that they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variant:
    """One row of a table: a peer, and what of it differs from the other rows."""

    name: str
    peer: str
    """the module of scripts/bench/peers that steps"""
    overrides: tuple[str, ...] = ()
    """options of train.py on top of the case's; a peer takes from the resolved run what it knows"""
    options: Mapping[str, Any] = field(default_factory=dict)
    """arguments of the peer alone"""


@dataclass(frozen=True)
class Case:
    """Variants that run interleaved in the same processes, on one lab or on loopback."""

    title: str
    variants: tuple[Variant, ...]
    reference: str
    """the variant that ratios are against"""
    overrides: tuple[str, ...]
    """model, data and batch, as train.py takes them"""
    ranks: int = 2
    rate: str | None = None
    """each host's link, as tc writes it; `none` is an unshaped lab, None one host's loopback"""
    ranks_per_host: int = 1
    """in a lab"""
    rounds: int = 8
    steps: int = 4
    """steps of a turn"""
    lead: int = 0
    """steps before them that do not count"""
    trail: int = 0
    """steps after them that do not count"""
    warmup: int = 3
    """steps of each variant before the first round: DDP cuts its buckets anew after its first"""
    quick: bool = True
    """whether --quick measures it, with fewer rounds"""

    @property
    def hosts(self) -> int:
        """The number of hosts in the lab."""
        return 1 if self.rate is None else self.ranks // self.ranks_per_host

    @property
    def network(self) -> str:
        """Where the ranks are, in words."""
        if self.rate is None:
            return f"{self.ranks} processes on one host's loopback"
        each = f" of {self.ranks_per_host} processes" if self.ranks_per_host > 1 else ""
        return f"{self.hosts} hosts{each}, {'unshaped' if self.rate == 'none' else self.rate}"

    def shortened(self) -> Case:
        """The case as a quick look: too few rounds for a ratio to be clear, and two samples a rank."""
        small = (*self.overrides, f"batch.size={2 * self.ranks}")
        lead, trail, warmup = min(self.lead, 1), min(self.trail, 1), min(self.warmup, 2)
        return dataclasses.replace(self, rounds=2, steps=1, lead=lead, trail=trail, warmup=warmup, overrides=small)


COMPUTE, COMMUNICATION = "compute alone", "communication alone"
FLOORS = (Variant(COMPUTE, "ours", ("comm=noop",)), Variant(COMMUNICATION, "communication"))
