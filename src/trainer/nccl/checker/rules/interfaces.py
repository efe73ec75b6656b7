"""Network interfaces for NCCL's start-up and for TCP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_interface

from trainer.nccl.checker import choosing, reading
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation

_SOCKET = "NCCL_SOCKET_IFNAME"
_VIRTUAL = re.compile(r"docker|veth|virbr|cni|flannel|cali|br-")


def _only_loopback(at: Situation) -> Iterator[Hit]:
    names = choosing.told(at, _SOCKET)
    if names is None or names.exclude or set(names.bare()) != {"lo"} or not at.several_nodes:
        return
    routed = [
        address
        for one in at.context.interfaces or ()
        if one.name == "lo"
        for address in one.addresses
        if not choosing.loopback(address.partition("/")[0])
    ]
    if not routed:
        yield hit(_SOCKET, nodes=at.context.nodes)


def _loopback_let_in(at: Situation) -> Iterator[Hit]:
    names = choosing.told(at, _SOCKET)
    if names and names.exclude and not names.matches("lo") and at.several_nodes:
        yield hit(_SOCKET, better=f"{names.text()},lo")


def _written_wrong(at: Situation) -> Iterator[Hit]:
    for name in (_SOCKET, "NCCL_OOB_NET_IFNAME"):
        text = at.text(name)
        if text is None:
            continue
        fault = reading.fault(text)
        if fault:
            yield hit(name, instead=None if fault[1] else "remove it", wrong_with=fault[0], better=fault[1])
        elif len(text) < 2:
            yield hit(name, wrong_with="has one character, which NCCL passes over", better="=<interface>")


def _none_there(at: Situation) -> Iterator[Hit]:
    interfaces = at.context.interfaces
    if interfaces is None:
        return
    present = ", ".join(one.name for one in interfaces if one.usable) or "none"
    selected = choosing.interfaces(at)
    if choosing.told(at, _SOCKET) and not any(one.usable for one in selected):
        down = "takes only {names}, which is down or has no address" if selected else None
        yield hit(_SOCKET, wrong=down, names=listed(one.name for one in selected) if selected else "", present=present)


def _several_match(at: Situation) -> Iterator[Hit]:
    names = choosing.told(at, _SOCKET)
    if names is None or names.exclude or names.exact or at.context.interfaces is None:
        return
    for item in names.bare():
        matched = [one.name for one in at.context.interfaces if one.name.startswith(item)]
        if len(matched) > 1:
            yield hit(_SOCKET, item=item, matched=listed(matched), better=f"={item if item in matched else matched[0]}")


def _virtual(at: Situation) -> Iterator[Hit]:
    if at.text(_SOCKET) is None:
        one_node = at.context.nodes == 1
        if at.context.interface and _VIRTUAL.match(at.context.interface) and not one_node:
            yield hit(
                _SOCKET, wrong="lets NCCL take {name}, which exists only inside this host", name=at.context.interface
            )
        return
    for one in choosing.interfaces(at):
        names = choosing.told(at, _SOCKET)
        if _VIRTUAL.match(one.name) and one.usable and names and not names.exact:
            yield hit(_SOCKET, name=one.name)


def _one_subnet(at: Situation) -> Iterator[Hit]:
    subnets: dict[str, str] = {}
    for one in choosing.interfaces(at):
        for address in one.addresses if one.up else ():
            subnet = str(ip_interface(address).network)
            if subnet in subnets and subnets[subnet] != one.name:
                yield hit(_SOCKET, one=subnets[subnet], other=one.name, subnet=subnet)
                return
            subnets[subnet] = one.name


RULES = (
    Rule(
        "I1",
        "error",
        (_SOCKET,),
        _only_loopback,
        wrong="is this host's loopback, which cannot connect {nodes} nodes",
        instead="name the interface of the route to the other nodes, as NCCL_SOCKET_IFNAME==eth0",
        reason="Every rank would offer an address that means itself.",
    ),
    Rule(
        "I2",
        "warning",
        (_SOCKET,),
        _loopback_let_in,
        wrong="lets loopback in, since an own ^ list replaces NCCL's, which leaves lo and docker out",
        instead="write {better}, or name the interface",
        reason="Where NCCL takes lo, other nodes cannot be reached.",
    ),
    Rule(
        "I3",
        "error",
        (_SOCKET, "NCCL_OOB_NET_IFNAME"),
        _written_wrong,
        wrong="{wrong_with}",
        instead="write {better}",
        reason="The form is [^][=]name,name without blanks; NCCL takes everything else for a name.",
    ),
    Rule(
        "I4",
        "error",
        (_SOCKET,),
        _none_there,
        wrong="names no interface of this machine",
        instead="use one that is up: {present}",
        reason="Without an interface that has an address the start-up fails.",
    ),
    Rule(
        "I5",
        "warning",
        (_SOCKET,),
        _several_match,
        wrong="{item} is the beginning of several names: {matched}",
        instead="write {better}",
        reason="NCCL takes every interface whose name begins so, unless the list begins with =.",
    ),
    Rule(
        "I6",
        "warning",
        (_SOCKET,),
        _virtual,
        wrong="takes {name}, which exists only inside this host",
        instead="name the interface of the route to the other nodes, as NCCL_SOCKET_IFNAME==eth0",
        reason="Bridges and interfaces of containers lead to no other host.",
    ),
    Rule(
        "I7",
        "warning",
        (_SOCKET,),
        _one_subnet,
        wrong="takes {one} and {other}, which are both in {subnet}",
        instead="name one, as NCCL_SOCKET_IFNAME=={one}",
        reason="The kernel answers from either, so a connection may leave by an address that the peer does not expect.",
    ),
)
