"""RDMA devices: which are named, which are there, and how they fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainer.nccl.checker import choosing, reading
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation

_HCA = "NCCL_IB_HCA"
_INTERFACE = re.compile(r"(eth\d*|en[opsx]\w+|ib\d+|bond\d*|team\d*|hsn\d*|wl\w+|lo|docker\w*|veth\w*|br-\w+)$")


def _interface_named(at: Situation) -> Iterator[Hit]:
    names = choosing.told(at, _HCA)
    for item in names.bare() if names else ():
        there = any(one.name.startswith(item) for one in at.context.devices or ())
        if _INTERFACE.match(item) and not there:
            yield hit(_HCA, item=item)


def _written_wrong(at: Situation) -> Iterator[Hit]:
    text = at.text(_HCA)
    fault = reading.fault(text) if text else None
    if fault:
        yield hit(_HCA, instead=None if fault[1] else "remove it", wrong_with=fault[0], better=fault[1])


def _none_there(at: Situation) -> Iterator[Hit]:
    if not at.context.devices or choosing.told(at, _HCA) is None:
        return
    selected = choosing.devices(at)
    if not any(one.active for one in selected):
        down = "takes only {names}, none of which has a port that is up" if selected else None
        present = ", ".join(one.name for one in at.context.devices if one.active) or "none"
        yield hit(_HCA, wrong=down, names=listed(one.name for one in selected) if selected else "", present=present)


def _several_match(at: Situation) -> Iterator[Hit]:
    names = choosing.told(at, _HCA)
    present = [one.name for one in at.context.devices or ()]
    if names is None or names.exact:
        return
    for item in names.bare():
        also = [name for name in present if name.startswith(item) and name != item]
        if item in present and also and not set(also) <= set(names.bare()):
            yield hit(_HCA, item=item, also=listed(also), better=names._replace(exact=True).text())


def _mixed_links(at: Situation) -> Iterator[Hit]:
    selected = [one for one in choosing.devices(at) if one.active]
    if choosing.verbs(at) and (at.text(_HCA) or at.several_nodes) and len({one.link for one in selected}) > 1:
        infiniband = [one.name for one in selected if one.link == "ib"]
        ethernet = [one.name for one in selected if one.link == "ethernet"]
        yield hit(_HCA, infiniband=listed(infiniband), ethernet=listed(ethernet), better=",".join(infiniband))


def _one_card(at: Situation) -> Iterator[Hit]:
    devices = choosing.devices(at)
    if at.text("NCCL_CROSS_NIC") is not None and len(devices) == 1:
        yield hit("NCCL_CROSS_NIC", name=devices[0].name)


def _rails_apart(at: Situation) -> Iterator[Hit]:
    crossing = at.number("NCCL_CROSS_NIC")
    several = at.context.devices is None or len(choosing.devices(at)) > 1
    if at.context.rails_meet is False and several and at.several_nodes and crossing != 0:
        yield hit("NCCL_CROSS_NIC", value=2 if crossing is None else crossing)


def _no_verbs(at: Situation) -> Iterator[Hit]:
    wanted = [name for name in at.begins("NCCL_IB_") if name != "NCCL_IB_DISABLE"]
    if at.context.verbs is not False or not choosing.verbs(at):
        return
    if wanted:
        yield hit(wanted[0])
    elif at.rdma:
        yield hit("/dev/infiniband", wrong="cannot be seen here, so that NCCL goes on with TCP in silence")


RULES = (
    Rule(
        "B1",
        "error",
        (_HCA,),
        _interface_named,
        wrong="{item} is the name of a network interface, not of an RDMA device",
        instead="write names that `ibv_devices` prints, as =mlx5_0; for TCP set NCCL_NET=Socket",
        reason="Interfaces and RDMA devices have names of their own; one that fits no device leaves NCCL without any.",
    ),
    Rule(
        "B1b",
        "error",
        (_HCA,),
        _written_wrong,
        wrong="{wrong_with}",
        instead="write {better}",
        reason="^ and = stand once, in front of the whole list, and blanks nowhere.",
    ),
    Rule(
        "B2",
        "error",
        (_HCA,),
        _none_there,
        wrong="names no RDMA device of this machine",
        instead="use one whose port is up: {present}",
        reason="Without a device NCCL goes on with TCP, or fails where another rank has one.",
    ),
    Rule(
        "B3",
        "warning",
        (_HCA,),
        _several_match,
        wrong="{item} is also the beginning of {also}",
        instead="write {better}",
        reason="NCCL takes every device whose name begins so, unless the list begins with =.",
    ),
    Rule(
        "B4",
        "warning",
        (_HCA,),
        _mixed_links,
        wrong="takes {infiniband}, which is InfiniBand, together with {ethernet}, which is Ethernet",
        instead="name those of one kind, as NCCL_IB_HCA=={better}",
        reason="Devices of two networks do not reach each other, and the slower one holds up the rest.",
    ),
    Rule(
        "B11",
        "warning",
        ("NCCL_CROSS_NIC",),
        _one_card,
        wrong="has no effect, since {name} is the only network device",
        instead="remove it",
        reason="With one card there is nothing to cross to.",
    ),
    Rule(
        "B13",
        "warning",
        ("NCCL_IB_*",),
        _no_verbs,
        wrong="needs /dev/infiniband/uverbs*, which cannot be seen here, so that NCCL goes on with TCP in silence",
        instead="start the container with --device=/dev/infiniband, or load the driver",
        reason="RDMA is reached through these files; no variable stands in for them.",
    ),
    Rule(
        "B17",
        "warning",
        ("NCCL_CROSS_NIC",),
        _rails_apart,
        wrong="{value} lets a card send to another rail's, and they do not reach each other",
        instead="set NCCL_CROSS_NIC=0, or name one device in NCCL_IB_HCA",
        reason="Where each rail has a network of its own, a connection across rails never comes about.",
    ),
)
