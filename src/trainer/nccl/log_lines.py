"""What NCCL decided, read from the lines it logs under NCCL_DEBUG=INFO."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

MESSAGE = re.compile(r"NCCL INFO (.*?)\s*$")
VERSION = re.compile(r"NCCL version (\d+(?:\.\d+)+)")
NETWORK = re.compile(r"Using network (.+)")
# Devices as "[0]mlx5_0:1/IB [1]mlx5_1:1/IB", and on InfiniBand behind them "[RO]; OOB eth0:10.0.0.1<0>".
USING = re.compile(r"NET/([^ ]+) : Using(.*?)(?:\[RO\])?(?:; OOB .*)?")
DEVICE = re.compile(r"\[\d+\]\s*([^\s\[\]{},=]+)")
# The sides of a connection over the network log it apart, as "[send]" and "[receive]".
CHANNEL = re.compile(r"Channel \d+(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\] (?:\[\w+\] )?via (.+?)(?: comm .*)?")
COUNT = re.compile(r"(\d+) coll channels, .*")
# Pattern 4 is the ring; the two words are the longest path inside a host and the one to the network.
RING = re.compile(r"Pattern 4, .*type (\w+)/(\w+), .*")
TUNING = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}.*")


class Collective(NamedTuple):
    """How one collective was done."""

    name: str
    size: int
    """bytes"""
    algorithm: str
    protocol: str
    channels: int


@dataclass
class Choice:
    """What the log of one process says; None, empty and zero are what it does not say."""

    version: str | None = None
    network: str | None = None
    """what carries data between hosts: IB (also for RoCE), Socket, or a plugin's name"""
    devices: tuple[str, ...] = ()
    """of that network, as mlx5_0:1/IB or eth0:10.0.0.1<0>"""
    pairs: dict[tuple[int, int], str] = field(default_factory=dict)
    """(from, to) in the communicator -> transport, as P2P/CUMEM, SHM/direct/direct or NET/IB/0/GDRDMA"""
    channels: int = 0
    """that collectives may use"""
    path: str | None = None
    """the longest path between two GPUs of a host on the ring: NVL, PIX, PXB, PHB or SYS"""
    collectives: list[Collective] = field(default_factory=list)
    """logged by the communicator's first rank only"""


def read(text: str) -> Choice:
    """The choices in the log `text`. Of several communicators the last one's count; what is no known line is passed."""
    choice, devices = Choice(), {}
    for line in text.splitlines():
        version = VERSION.search(line)
        if version:
            choice.version = version[1]
        message = MESSAGE.search(line)
        if message is None:
            continue
        if found := NETWORK.fullmatch(message[1]):
            choice.network = found[1]
        elif found := USING.fullmatch(message[1]):
            devices[found[1]] = tuple(DEVICE.findall(found[2]))
        elif found := CHANNEL.fullmatch(message[1]):
            choice.pairs[int(found[1]), int(found[2])] = found[3]
        elif found := COUNT.fullmatch(message[1]):
            choice.channels = int(found[1])
        elif found := RING.fullmatch(message[1]):
            choice.path = found[1]
        elif found := TUNING.fullmatch(message[1]):
            name, size, algorithm, protocol, low, high = found.groups()
            choice.collectives.append(Collective(name, int(size), algorithm, protocol, int(high) - int(low) + 1))
    choice.devices = devices.get(choice.network or "", ())
    return choice
