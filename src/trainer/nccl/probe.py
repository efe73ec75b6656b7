"""What the links inside a host and between hosts do: the time to start a transfer, and its bytes in a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import torch
import torch.distributed as dist

from trainer.nccl import machine

Level = Literal["inside", "between"]
LEVELS: tuple[Level, ...] = ("inside", "between")
SMALL, FIRST, LARGEST, GROWTH = 8, 2**16, 2**25, 8
# A transfer of this many seconds tells the rate, whatever it cost to start.
LONG_S = 0.02
# The best of some: whatever else runs on a machine only adds to a time.
STARTS, LARGE = 20, 5


class Link(NamedTuple):
    """A transfer of b bytes takes alpha_s + b / bytes_per_s."""

    alpha_s: float
    bytes_per_s: float


def slowest(links: Mapping[Level, Link]) -> Link:
    """The link that holds up a ring through all ranks: between hosts, where there are several."""
    return links.get("between") or links["inside"]


def hosts_of(control: dist.ProcessGroup) -> list[str]:
    """The node of each rank of `control`, by `machine.node_name`; collective."""
    hosts: list[str] = [""] * dist.get_world_size(control)
    dist.all_gather_object(hosts, machine.node_name(), group=control)
    return hosts


def levels_of(hosts: Sequence[str]) -> set[Level]:
    """The levels that ranks on `hosts` have between them."""
    different = len(set(hosts))
    found: set[Level] = set()
    if len(hosts) > different:
        found.add("inside")
    if different > 1:
        found.add("between")
    return found


def probe(
    group: dist.ProcessGroup,
    control: dist.ProcessGroup,
    hosts: Sequence[str],
    device: torch.device,
    levels: Collection[Level] = LEVELS,
) -> dict[Level, Link]:
    """Measure the links of `group`, whose ranks are on `hosts`, in about a second; the same result on all ranks.

    At each level ranks form a ring and all send to the next one at once, as in a ring all-reduce: every link carries
    what it would carry in training, in both directions, and the slowest one counts. `control` is a Gloo group of all
    ranks of the job, which must all call this, each with its own `group`.
    """
    ranks = dist.get_process_group_ranks(group)
    # A first collective, because point-to-point messages of a part of the ranks cannot make NCCL's communicator.
    dist.all_reduce(torch.zeros(1, device=device), group=group)

    def slowest(seconds: float) -> float:
        told = torch.tensor([seconds], dtype=torch.float64)
        dist.all_reduce(told, op=dist.ReduceOp.MAX, group=control)
        return told.item()

    found: dict[Level, Link] = {}
    for level in (level for level in LEVELS if level in levels):
        ring = ring_of(level, dist.get_rank(group), hosts)
        peers = None if ring is None else (ranks[ring[0]], ranks[ring[1]])
        link = _measure(partial(_exchange, peers, group, device), slowest)
        if link is not None:
            found[level] = link
    return found


def ring_of(level: Level, rank: int, hosts: Sequence[str]) -> tuple[int, int] | None:
    """The ranks that `rank` sends to and receives from; None where it is not on the ring of `level`.

    Inside, the ranks of each host; between, the first rank of every host.
    """
    if level == "inside":
        ring = [other for other, host in enumerate(hosts) if host == hosts[rank]]
    else:
        ring = [hosts.index(host) for host in dict.fromkeys(hosts)]
    if rank not in ring or len(ring) < 2:
        return None
    place = ring.index(rank)
    return ring[(place + 1) % len(ring)], ring[place - 1]


def _measure(exchange: Callable[[int], float], slowest: Callable[[float], float]) -> Link | None:
    """The link that `exchange`, of a number of bytes and giving seconds, uses; None where no rank has one."""
    exchange(SMALL)
    alpha = slowest(min(exchange(SMALL) for _ in range(STARTS)))
    if not alpha:
        return None
    size = FIRST
    while True:
        exchange(size)
        taken = slowest(min(exchange(size) for _ in range(LARGE)))
        if taken >= LONG_S or size >= LARGEST:
            # On a machine so busy that a large transfer was no slower than a small one there is no rate to tell.
            return Link(alpha, (size - SMALL) / max(taken - alpha, 1e-9))
        size *= GROWTH


def _exchange(peers: tuple[int, int] | None, group: dist.ProcessGroup, device: torch.device, size: int) -> float:
    """Seconds in which this rank has sent `size` bytes to the one peer and got as many from the other."""
    if peers is None:
        return 0.0
    sent, received = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    # The receive first: with Gloo a send under way would keep what comes in from being taken, at half the rate.
    messages = [
        dist.P2POp(dist.irecv, received, peers[1], group),
        dist.P2POp(dist.isend, sent, peers[0], group),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
