"""What a lab is: its hosts, their names and addresses, and which shapes are possible."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network

MAX_HOSTS = 64
UNSHAPED = "none"
# The one interface of every host, and the port that the hosts' processes meet on.
INTERFACE = "eth0"
PORT = 29500
SUBNETS = IPv4Network("10.77.0.0/16")
# Host 0's last octet. All have three digits, because torch sorts addresses as text and rank 0 goes to the first.
FIRST_OCTET = 101
PREFIX = "netlab-"
SWITCH = "switch"


class LabError(Exception):
    """A reason why a command cannot be done, in one line: `where: what is wrong with which value; what to do`."""


@dataclass(frozen=True)
class Lab:
    """The shape of one lab. `rate` is as the user wrote it, `bytes_per_s` what tc made of it; None is unshaped."""

    name: str
    hosts: int
    ranks_per_host: int
    rate: str
    subnet: IPv4Network
    bytes_per_s: int | None = None

    @property
    def switch(self) -> str:
        """The namespace that holds the bridge: there, no firewall of the machine sees what the hosts send."""
        return f"{PREFIX}{self.name}-{SWITCH}"

    @property
    def namespaces(self) -> list[str]:
        """All namespaces of the lab, the switch first."""
        return [self.switch, *(self.namespace(host) for host in range(self.hosts))]

    def namespace(self, host: int) -> str:
        """The namespace of host number `host`, from 0."""
        return f"{PREFIX}{self.name}-{host}"

    def address(self, host: int) -> str:
        """The IPv4 address of host number `host`."""
        return str(self.subnet.network_address + FIRST_OCTET + host)

    def hardware_address(self, host: int) -> str:
        """The Ethernet address of host number `host`: fixed, so that all can know each other's without asking."""
        return "02:00:" + ":".join(
            f"{octet:02x}" for octet in (self.subnet.network_address + FIRST_OCTET + host).packed
        )

    def __str__(self) -> str:
        ranks = f" x {self.ranks_per_host} ranks" if self.ranks_per_host > 1 else ""
        speed = "unshaped" if self.bytes_per_s is None else f"{self.rate} each way"
        return f"{self.hosts} hosts{ranks}, {speed}, {self.subnet}"


def check_name(name: str) -> str:
    """The name itself if a lab may have it."""
    if not re.fullmatch(r"[a-z0-9](-?[a-z0-9]){0,30}", name):
        raise LabError(f"--name: {name!r} cannot name a lab; use up to 31 of a-z, 0-9 and single '-' between them")
    return name


def check_hosts(hosts: int) -> int:
    """The number itself if a lab may have that many hosts."""
    if hosts < 2:
        raise LabError(f"--hosts: {hosts} is too few, a link has two ends; use 2 to {MAX_HOSTS}")
    if hosts > MAX_HOSTS:
        raise LabError(f"--hosts: {hosts} is too many for one machine; use 2 to {MAX_HOSTS}")
    return hosts


def check_ranks(ranks_per_host: int) -> int:
    """The number itself if a host may have that many ranks."""
    if ranks_per_host < 1:
        raise LabError(f"--ranks-per-host: {ranks_per_host} leaves nobody to work; use 1 or more")
    return ranks_per_host


def parse_subnet(text: str) -> IPv4Network:
    """The network that a user wrote as `10.77.3.0/24`."""
    try:
        subnet = IPv4Network(text)
    except ValueError as error:
        raise LabError(f"--subnet: {error}; write it like 10.77.3.0/24") from None
    if subnet.prefixlen != 24:
        raise LabError(f"--subnet: {text} has not 256 addresses; write it like 10.77.3.0/24")
    return subnet


def choose_subnet(wanted: IPv4Network | None, used: Iterable[IPv4Network]) -> IPv4Network:
    """The wanted subnet, or else the first free one of 10.77.0.0/16; `used` are those of this machine and its labs."""
    taken = list(used)
    for subnet in SUBNETS.subnets(new_prefix=24) if wanted is None else [wanted]:
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    if wanted is None:
        raise LabError(f"subnet: none of {SUBNETS} is free; choose another with --subnet 10.78.0.0/24")
    other = next(other for other in taken if wanted.overlaps(other))
    raise LabError(f"--subnet: {wanted} is in use ({other}); leave --subnet out to get a free one")


def lab_of(namespace: str) -> str | None:
    """The name of the lab that a namespace belongs to, or None if it is of no lab."""
    found = re.fullmatch(rf"{PREFIX}(.+)-(\d+|{SWITCH})", namespace)
    return found[1] if found else None
