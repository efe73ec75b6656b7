"""Make, change, examine and remove labs. What changes one expects that `state.lock` is held."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from ipaddress import IPv4Network

from trainer.lab import ending, kernel, state
from trainer.lab.layout import INTERFACE, UNSHAPED, Lab, LabError, choose_subnet, lab_of

BRIDGE = "bridge"
# A link that was idle may send this much at once: a real one could not, so it is kept to what passes in a millisecond.
BURST_S = 0.001
# But no less than two full Ethernet frames, or nothing passes at all.
MIN_BURST = 4000
# The largest packet that the kernel hands to an interface before it is cut into frames.
MAX_PACKET = 65536
# What `up` did.
MADE, REPAIRED, FOUND = "made", "made afresh, one was left there half-made", "there already and stays as it is"


def up(name: str, hosts: int, ranks_per_host: int, rate: str, subnet: IPv4Network | None) -> tuple[Lab, str]:
    """Make a lab, or find it there. Returns it and which of MADE, REPAIRED and FOUND it is."""
    existing, remains = state.read(name), _namespaces(name)
    if existing is not None and not faults(existing):
        same = (existing.hosts, existing.ranks_per_host) == (hosts, ranks_per_host)
        if not same or _bytes_per_s(existing, rate) != existing.bytes_per_s or subnet not in (None, existing.subnet):
            raise LabError(f"up: lab '{name}' is up with another shape ({existing}); first: netlab down --name {name}")
        return existing, FOUND
    down(name)
    used = kernel.networks() + [lab.subnet for lab in map(state.read, state.names()) if lab is not None]
    lab = Lab(name, hosts, ranks_per_host, rate, choose_subnet(subnet, used))
    try:
        _connect(lab)
        # Only a whole lab gets a file: one that was killed half-way is known by its namespaces without it.
        lab = shape(lab, rate)
    except kernel.Refused as error:
        down(name)
        raise LabError(f"up: the kernel refused lab '{name}' ({error}); nothing was left behind") from None
    except LabError:
        down(name)
        raise
    return lab, REPAIRED if remains or existing else MADE


def down(name: str) -> bool:
    """Remove a lab or what is left of one, ending what runs in it; whether there was anything."""
    present = _namespaces(name)
    ending.empty(present)
    if present:
        # A namespace takes its interfaces with it, and those their other ends.
        kernel.call(["ip"], [f"netns delete {namespace}" for namespace in present])
    existed = bool(present) or state.read(name) is not None
    state.forget(name)
    return existed


def shape(lab: Lab, rate: str) -> Lab:
    """Give every link of a lab the rate, in both directions; the lab as it is now."""
    bytes_per_s = _bytes_per_s(lab, rate)
    for namespace, devices in _ends(lab):
        shaped = kernel.rates(namespace)
        if bytes_per_s is None:
            queues = [f"qdisc delete dev {device} root" for device in devices if device in shaped]
            packet = MAX_PACKET
        else:
            burst = max(MIN_BURST, round(bytes_per_s * BURST_S))
            # A packet larger than the burst would be cut up in software, which costs a core at 1 Gbit/s.
            packet = min(MAX_PACKET, burst * 9 // 10)
            queues = [
                f"qdisc replace dev {device} root tbf rate {rate} burst {burst} latency 50ms" for device in devices
            ]
        kernel.call(["tc", "-n", namespace], queues)
        kernel.call(["ip", "-n", namespace], [f"link set dev {device} gso_max_size {packet}" for device in devices])
    lab = dataclasses.replace(lab, rate=rate, bytes_per_s=bytes_per_s)
    state.write(lab)
    return lab


def faults(lab: Lab) -> list[str]:
    """What the kernel has differently from what the lab should be, in words; nothing if the lab is whole."""
    missing = set(lab.namespaces) - set(_namespaces(lab.name))
    if missing:
        return [f"namespace {name} is missing" for name in sorted(missing)]
    found = []
    for namespace, devices in _ends(lab):
        links, rates = kernel.links(namespace), kernel.rates(namespace)
        for device in devices:
            if "UP" not in links.get(device, {}).get("flags", ()):
                found.append(f"{device} in {namespace} is not up")
            elif rates.get(device) != lab.bytes_per_s:
                found.append(f"{device} in {namespace} has another rate")
            elif namespace == lab.switch:
                if links[device].get("master") != BRIDGE:
                    found.append(f"{device} in {namespace} is not on the bridge")
            elif not any(known.get("family") == "inet" for known in links[device]["addr_info"]):
                found.append(f"{device} in {namespace} has no address")
    return found


def _connect(lab: Lab) -> None:
    """Make the namespaces, the bridge in the switch's, and one cable from there to each host."""
    kernel.call(["ip"], [f"netns add {namespace}" for namespace in lab.namespaces])
    cables = [f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up"]
    for host in range(lab.hosts):
        near, far = _port(host), f"{INTERFACE} address {lab.hardware_address(host)} netns {lab.namespace(host)}"
        cables += [f"link add {near} type veth peer name {far}", f"link set {near} master {BRIDGE} up"]
    kernel.call(["ip", "-n", lab.switch], cables)
    for host in range(lab.hosts):
        # IPv4 only: nothing may pick an address that we did not give.
        lines = ["link set lo up", f"link set {INTERFACE} addrgenmode none", f"link set {INTERFACE} up"]
        lines.append(f"address add {lab.address(host)}/{lab.subnet.prefixlen} dev {INTERFACE}")
        # Neighbours are told, not learnt: the kernel's table is one for all namespaces, and 33 hosts would fill it.
        lines += [
            f"neighbour add {lab.address(other)} lladdr {lab.hardware_address(other)} dev {INTERFACE} nud permanent"
            for other in range(lab.hosts)
            if other != host
        ]
        kernel.call(["ip", "-n", lab.namespace(host)], lines)


def _bytes_per_s(lab: Lab, rate: str) -> int | None:
    """What tc understands by a rate, found out on the bridge itself, which carries nothing; None for unshaped."""
    if rate == UNSHAPED:
        return None
    # One word, as it becomes part of a line of commands.
    if len(rate.split()) != 1:
        raise LabError(f"--rate: {rate!r} is not one word; write it like 1gbit or 100mbit")
    tc = ["tc", "-n", lab.switch]
    try:
        kernel.call([*tc, *f"qdisc replace dev {BRIDGE} root tbf rate {rate} burst 256kb latency 50ms".split()])
    except kernel.Refused as error:
        raise LabError(
            f"--rate: tc refuses {rate} ({error}); write it like 1gbit or 100mbit, or {UNSHAPED} for no limit"
        ) from None
    understood = kernel.rates(lab.switch)[BRIDGE]
    kernel.call([*tc, *f"qdisc delete dev {BRIDGE} root".split()])
    return understood


def _ends(lab: Lab) -> Iterator[tuple[str, list[str]]]:
    """Both ends of every link, by namespace. An end shapes what it sends: the host's what leaves, ours what arrives."""
    yield lab.switch, [_port(host) for host in range(lab.hosts)]
    for host in range(lab.hosts):
        yield lab.namespace(host), [INTERFACE]


def _port(host: int) -> str:
    return f"host{host}"


def _namespaces(name: str) -> list[str]:
    return [namespace for namespace in kernel.namespaces() if lab_of(namespace) == name]
