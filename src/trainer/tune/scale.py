"""A profile as it would be on other hosts, behind other links."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from trainer.doctor.hooks import BFLOAT, EXACT, HOOKS, Hook
from trainer.tune.profile import Point, Profile

KNOWN: dict[str, Hook] = {hook.name: hook for hook in (EXACT, BFLOAT, *HOOKS)}
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


def travels_s(hook: Hook, size: float, ranks: int, wire: Wire, ranks_per_host: int = 1) -> float:
    """Seconds for which the exchanges of a bucket of `size` bytes keep each host's link.

    A ring all-reduce is 2 (n - 1) messages one after another, an exchange of every rank with every other n - 1. Each of
    a hook's collectives pays for its messages, and all bytes travel at the link's rate. A ring, and a gather along one,
    passes a host's link once, with one rank's bytes. Where every rank swaps its parts with every other, as int8 and
    onebit do before they gather, each of the R ranks of a host sends to the n - R outside it: R (n - R) / (n - 1) times
    as much.
    """
    ring = hook.allreduced > 0 and hook.starts == 1
    messages = 2 * (ranks - 1) if ring else (ranks - 1) * hook.starts
    sent = hook.sent(size, ranks)
    if hook.allreduced and not ring:
        sent *= (1 + ranks_per_host * (ranks - ranks_per_host) / (ranks - 1)) / 2
    return messages * wire.alpha_s + sent / wire.bytes_per_s


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
        for size, wall_s, cpu_s, _ in curve:
            beside_s = 0.0
            if hook.copies:
                beside_s = max(0.0, wall_s - travels_s(hook, size, profile.ranks, here))
            travelling_s = travels_s(hook, size, cluster.ranks, cluster.between, cluster.ranks_per_host)
            wall_there_s = beside_s + travelling_s
            points.append(Point(size, wall_there_s, min(cpu_s, wall_there_s), hook.sent(size, cluster.ranks)))
        curves[name] = points
    return dataclasses.replace(profile, curves=curves, ranks=cluster.ranks, hosts=cluster.hosts)
