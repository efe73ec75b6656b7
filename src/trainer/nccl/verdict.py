"""What NCCL chose, in a few lines for a person, and where that is not what the preset meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from trainer.nccl.limits import spell
from trainer.nccl.log_lines import Choice

Pairs = Mapping[tuple[int, int], str]


def merge(choices: Sequence[Choice]) -> Choice:
    """One choice of all ranks of a communicator: each rank logs its own pairs, the first one the collectives."""
    first = choices[0]
    pairs = {pair: transport for choice in choices for pair, transport in choice.pairs.items()}
    devices = tuple(dict.fromkeys(device for choice in choices for device in choice.devices))
    networks = sorted({choice.network for choice in choices if choice.network})
    collectives = [entry for choice in choices for entry in choice.collectives]
    return Choice(
        first.version, "+".join(networks) or None, devices, pairs, first.channels, _worst(choices), collectives
    )


def lines(choice: Choice, hosts: Sequence[str]) -> list[str]:
    """The choice in words; `hosts` is the host of each rank of the communicator."""
    inside, between = _apart(choice.pairs, hosts)
    told = [f"NCCL {choice.version or 'of unknown version'}, {choice.channels} channels"]
    if inside:
        path = f", the longest path is {choice.path}" if choice.path else ""
        told.append(f"inside a host: {_count(inside.values())}{path}")
    if between:
        told.append(f"between hosts: {_count(between.values())}, by {', '.join(choice.devices) or choice.network}")
    for entry in choice.collectives:
        told.append(
            f"{entry.name} of {spell(entry.size)}: {entry.algorithm.lower()} with {entry.protocol} on"
            f" {entry.channels} channels"
        )
    return told


def differences(intended: str | None, choice: Choice, hosts: Sequence[str]) -> list[str]:
    """How the choice differs from what was `intended`, a preset's network: what, and what to look at."""
    inside, between = _apart(choice.pairs, hosts)
    found = []
    if between:
        found += _between(intended, choice, between)
    slow = sorted(pair for pair, transport in inside.items() if not transport.startswith("P2P"))
    if slow and intended != "pcie":
        found.append(
            f"GPUs {slow[0][0]} and {slow[0][1]} of a host talk by {inside[slow[0]]} instead of reading each other's"
            " memory; look for NCCL_P2P_DISABLE, NCCL_P2P_LEVEL and `nvidia-smi topo -p2p r`"
        )
    network = sorted(pair for pair in slow if inside[pair].startswith("NET"))
    if network and intended == "pcie":
        found.append(
            f"GPUs {network[0][0]} and {network[0][1]} of one host talk by {inside[network[0]]}; look for"
            " NCCL_SHM_DISABLE and the size of /dev/shm"
        )
    if intended == "nvlink" and inside and not slow and choice.path not in (None, "NVL"):
        found.append(f"nvlink was meant, but the ring has a path of kind {choice.path}; look at `nvidia-smi nvlink -s`")
    return found


def _between(intended: str | None, choice: Choice, between: Pairs) -> list[str]:
    wanted = {"ib": "IB", "roce": "IB", "ethernet": "Socket"}.get(intended or "")
    if wanted is None:
        return []
    if choice.network != wanted:
        look = (
            "look for /dev/infiniband in the container, `ibstat`, NCCL_IB_DISABLE and NCCL_NET"
            if wanted == "IB"
            else "name it by nccl.env.NCCL_NET=Socket"
        )
        return [f"{intended} was meant, but NCCL took NET/{choice.network}; {look}"]
    if wanted != "IB":
        return []
    layer = {"ib": "IB", "roce": "RoCE"}[intended or ""]
    if other := [device for device in choice.devices if not device.endswith(f"/{layer}")]:
        return [f"{intended} was meant, but {other[0]} is taken; name the adapters by nccl.env.NCCL_IB_HCA"]
    if not any("GDRDMA" in transport for transport in between.values()):
        return ["no pair uses GPUDirect RDMA, so all goes through the host's memory; load the module nvidia-peermem"]
    return []


def _apart(pairs: Pairs, hosts: Sequence[str]) -> tuple[Pairs, Pairs]:
    """Pairs inside a host, and pairs between hosts."""
    # A log may also hold pairs of a larger communicator, of which this one is a part.
    own = {pair: transport for pair, transport in pairs.items() if max(pair) < len(hosts)}
    inside = {pair: transport for pair, transport in own.items() if hosts[pair[0]] == hosts[pair[1]]}
    return inside, {pair: transport for pair, transport in own.items() if pair not in inside}


def _count(transports: Iterable[str]) -> str:
    """`14 pairs by P2P/CUMEM, 2 by NET/IB with GPUDirect RDMA`, the most frequent first."""
    counts = Counter(map(_kind, transports)).most_common()
    (first, number), *rest = counts
    return ", ".join([f"{number} pairs by {first}", *(f"{number} by {kind}" for kind, number in rest)])


def _kind(transport: str) -> str:
    """The transport without the number of the device."""
    words = transport.split("/")
    if words[0] != "NET":
        return "/".join(words[:2])
    return "/".join(words[:2]) + (" with GPUDirect RDMA" if "GDRDMA" in transport else "")


def _worst(choices: Sequence[Choice]) -> str | None:
    # In growing distance, as NCCL orders them.
    order = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
    paths = [choice.path for choice in choices if choice.path in order]
    return max(paths, key=order.index, default=None)
