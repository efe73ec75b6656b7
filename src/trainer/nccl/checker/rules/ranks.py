"""Ranks compared with each other: what reached them, and where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainer.nccl.checker.context import Rank
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import find

COMPARED = ("NCCL_", "TORCH_NCCL_")
"""how the names of variables begin that are compared between ranks"""


def scope(name: str) -> str:
    """Between whom `name` must be alike: job, node, rank, or log where a difference only shows there."""
    row = find(name)
    return row.same if row is not None else "job"


def compared(ranks: Sequence[Rank]) -> list[str]:
    """The variables that are looked at, by name."""
    names = {name for rank in ranks for name in rank.values}
    return sorted(name for name in names if name.startswith(COMPARED))


def differing(name: str, ranks: Sequence[Rank]) -> tuple[Rank, Rank] | None:
    """The first two of `ranks`, or of those of one node where it is the node's, that differ in variable `name`."""
    first, nodes = dict[str, Rank](), scope(name) == "node"
    for rank in ranks:
        one = first.setdefault(rank.node if nodes else "", rank)
        if one.values.get(name) != rank.values.get(name):
            return one, rank
    return None


def _words(name: str, rank: Rank) -> str:
    return f"{rank.values[name]} on rank {rank.rank}" if name in rank.values else f"unset on rank {rank.rank}"


def _different(at: Situation) -> Iterator[Hit]:
    ranks = at.context.ranks
    for name in compared(ranks):
        same = scope(name)
        if name == "NCCL_IB_HCA" or same in ("rank", ""):
            continue
        pair = differing(name, ranks)
        if pair is None and same == "node":
            pair = _forgotten(name, ranks)
        if pair:
            yield hit(
                name,
                "warning" if same == "log" else None,
                one=_words(name, pair[0]),
                other=_words(name, pair[1]),
            )


def _forgotten(name: str, ranks: Sequence[Rank]) -> tuple[Rank, Rank] | None:
    """A node may have a value of its own, but it may not have been forgotten."""
    other = next((rank for rank in ranks if rank.values.get(name) != ranks[0].values.get(name)), None)
    lacks = other is not None and (name not in ranks[0].values or name not in other.values)
    return (ranks[0], other) if other is not None and lacks else None


def _different_devices(at: Situation) -> Iterator[Hit]:
    pair = differing("NCCL_IB_HCA", at.context.ranks)
    if pair:
        one, other = (_words("NCCL_IB_HCA", rank) for rank in pair)
        yield hit("NCCL_IB_HCA", node=pair[0].node, one=one, other=other)


def _unequal_devices(at: Situation) -> Iterator[Hit]:
    counted = [rank for rank in at.context.ranks if rank.devices is not None]
    tolerated = at.number("NCCL_IGNORE_NET_MISMATCH")
    other = next((rank for rank in counted if rank.devices != counted[0].devices), None)
    if other is not None and tolerated != 0 and at.since(2, 30, 3):
        yield hit(
            "NCCL_IGNORE_NET_MISMATCH",
            one=f"{counted[0].devices} on rank {counted[0].rank}",
            other=f"{other.devices} on rank {other.rank}",
        )


def _different_networks(at: Situation) -> Iterator[Hit]:
    known = [rank for rank in at.context.ranks if rank.transport]
    other = next((rank for rank in known if rank.transport != known[0].transport), None)
    if other is not None:
        one = known[0]
        yield hit(
            "NCCL_NET", one=f"{one.transport} on rank {one.rank}", other=f"{other.transport} on rank {other.rank}"
        )


def _no_common_subnet(at: Situation) -> Iterator[Hit]:
    known = [rank for rank in at.context.ranks if rank.subnets is not None]
    for other in known[1:]:
        if other.node != known[0].node and not set(other.subnets or ()) & set(known[0].subnets or ()):
            one = known[0]
            yield hit(
                "NCCL_SOCKET_IFNAME",
                one=f"{listed(one.subnets) if one.subnets else 'none'} on rank {one.rank}",
                other=f"{listed(other.subnets) if other.subnets else 'none'} on rank {other.rank}",
            )
            return


def _one_identity(at: Situation) -> Iterator[Hit]:
    first: dict[str, Rank] = {}
    for rank in at.context.ranks:
        if rank.identity is None:
            continue
        earlier = first.setdefault(rank.identity, rank)
        if earlier.node != rank.node:
            yield hit("NCCL_HOSTID", one=earlier.rank, other=rank.rank, identity=rank.identity)
            return


def _unlike_machines(at: Situation) -> Iterator[Hit]:
    ranks = at.context.ranks
    for what, told in (
        ("processors", [(rank.rank, rank.cpu) for rank in ranks if rank.cpu]),
        ("GPUs", [(rank.rank, rank.gpu) for rank in ranks if rank.gpu]),
        ("releases of NCCL", [(rank.rank, ".".join(map(str, rank.nccl))) for rank in ranks if rank.nccl]),
    ):
        other = next((one for one in told if one[1] != told[0][1]), None)
        if other is not None:
            yield hit(
                "NCCL_NET_OVERHEAD" if what == "processors" else "ranks",
                instead="set NCCL_NET_OVERHEAD=1000 on all" if what == "processors" else None,
                what=what,
                one=f"{told[0][1]} on rank {told[0][0]}",
                other=f"{other[1]} on rank {other[0]}",
            )


RULES = (
    Rule(
        "O7",
        "error",
        ("NCCL_*", "TORCH_NCCL_*"),
        _different,
        wrong="is {one} and {other}",
        instead="set it for all, as +nccl.env.<NAME>=<value>, mpirun -x or srun --export do",
        reason="Ranks that read different settings choose differently, and hang.",
    ),
    Rule(
        "B1c",
        "error",
        ("NCCL_IB_HCA",),
        _different_devices,
        wrong="differs within node {node}: {one}, {other}",
        instead="give all processes of a node the same list; NCCL finds the card near each GPU",
        reason="The ranks of a node search for paths together, and do not find the same devices.",
    ),
    Rule(
        "B12",
        "warning",
        ("NCCL_IGNORE_NET_MISMATCH",),
        _unequal_devices,
        wrong="accepts different numbers of network devices, {one} and {other}, which may hang",
        instead="give all nodes as many devices with NCCL_IB_HCA, or set 0 to be told at the start",
        reason="A node whose cards are not all found is more often a fault than a plan.",
    ),
    Rule(
        "B16",
        "error",
        ("NCCL_NET",),
        _different_networks,
        wrong="leaves ranks on different networks: {one}, {other}",
        instead="repair the one that lacks RDMA, or set NCCL_NET=Socket for all",
        reason="A rank on TCP and one on RDMA wait for each other for ever.",
    ),
    Rule(
        "I8",
        "warning",
        ("NCCL_SOCKET_IFNAME",),
        _no_common_subnet,
        wrong="takes interfaces without a subnet in common: {one}, {other}",
        instead="name those of one network, as NCCL_SOCKET_IFNAME==eth0,ens3",
        reason="Unless there is a route between them, the ranks do not find each other.",
    ),
    Rule(
        "I13",
        "error",
        ("NCCL_HOSTID",),
        _one_identity,
        wrong="makes one host of two: rank {one} and rank {other} both say {identity}",
        instead="give each machine a name of its own",
        reason="Ranks that take each other for neighbours try shared memory that they do not share.",
    ),
    Rule(
        "O9",
        "warning",
        ("NCCL_NET_OVERHEAD",),
        _unlike_machines,
        wrong="have different {what}: {one}, {other}",
        instead="put equal machines into one job",
        reason="Each rank reckons which algorithm is fastest, and where they disagree the job hangs.",
    ),
)
