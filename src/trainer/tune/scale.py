"""A profile as it would be on other hosts, behind other links."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from trainer.doctor.hooks import EXACT, HOOKS, Hook
from trainer.tune.profile import Point, Profile

KNOWN: dict[str, Hook] = {hook.name: hook for hook in (EXACT, *HOOKS)}
"""the hooks whose bytes have a closed form in the bucket's size"""


class Wire(NamedTuple):
    """A link: a message of b bytes takes alpha_s + b / bytes_per_s."""

    alpha_s: float
    bytes_per_s: float


class Cluster(NamedTuple):
    """Hosts of several ranks, and the link of each host to the others, which carries one rank's part of a ring."""

    hosts: int
    ranks_per_host: int
    between: Wire

    @property
    def ranks(self) -> int:
        return self.hosts * self.ranks_per_host


def travels_s(hook: Hook, size: float, ranks: int, wire: Wire) -> float:
    """Seconds for which the exchanges of a bucket of `size` bytes keep the wire.

    A ring all-reduce is 2 (n - 1) messages one after another, an exchange of every rank with every other n - 1. Each of
    a hook's collectives pays for its messages, and all bytes travel at the link's rate.
    """
    rings = 1 if hook.allreduced and hook.starts == 1 else 0
    messages = 2 * (ranks - 1) * rings + (ranks - 1) * (0 if rings else hook.starts)
    return messages * wire.alpha_s + hook.sent(size, ranks) / wire.bytes_per_s


def scaled(profile: Profile, cluster: Cluster) -> Profile:
    """`profile` on `cluster`: each rank computes what it did, and its buckets travel by the closed forms.

    What a bucket took here beyond its closed form, its encoding, it takes there too. Hooks without a closed form are
    left out.
    """
    here = Wire(*profile.wire)
    curves = {}
    for name, curve in profile.curves.items():
        hook = KNOWN.get(name)
        if hook is None:
            continue
        points = []
        for size, wall_s, cpu_s in curve:
            beside_s = 0.0
            if hook.copies:
                beside_s = max(0.0, wall_s - travels_s(hook, size, profile.ranks, here))
            travelling_s = travels_s(hook, size, cluster.ranks, cluster.between)
            points.append(Point(size, beside_s + travelling_s, min(cpu_s, beside_s + travelling_s)))
        curves[name] = points
    return dataclasses.replace(profile, curves=curves, ranks=cluster.ranks, hosts=cluster.hosts)
