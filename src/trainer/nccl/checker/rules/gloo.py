"""Interfaces for Gloo and TensorPipe, and the address at which ranks meet."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.nccl.checker import choosing, reading
from trainer.nccl.checker.rule import Hit, Rule, hit
from trainer.nccl.checker.situation import Situation

_SOCKET, _GLOO, _TENSORPIPE = "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"


def _not_there(at: Situation) -> Iterator[Hit]:
    if at.context.interfaces is None:
        return
    usable = [one.name for one in at.context.interfaces if one.usable]
    for name in (_GLOO, _TENSORPIPE):
        for item in (at.text(name) or "").split(","):
            # What is written in NCCL's way has a rule of its own.
            if item and item not in usable and not _meant_for_nccl(at, item):
                yield hit(name, item=item, present=", ".join(usable) or "none")


def _meant_for_nccl(at: Situation, item: str) -> bool:
    known = [one.name for one in at.context.interfaces or ()]
    return item[0] in "^=" or (item not in known and any(name.startswith(item) for name in known))


def _foreign_syntax(at: Situation) -> Iterator[Hit]:
    for name, reader in ((_GLOO, "Gloo"), (_TENSORPIPE, "TensorPipe")):
        text = at.text(name)
        if text is None:
            continue
        if name == _TENSORPIPE and "," in text:
            yield hit(name, wrong="is a list, and TensorPipe takes one interface", reader=reader)
        elif reading.fault(text) or any(_meant_for_nccl(at, item) for item in text.split(",")):
            yield hit(name, reader=reader)


def _different(at: Situation) -> Iterator[Hit]:
    gloo, names = at.text(_GLOO), choosing.told(at, _SOCKET)
    if gloo is None or gloo[0] in "^=":
        return
    if names is None:
        others = at.text(_SOCKET) is None and at.context.interface
        if others and others not in gloo.split(","):
            yield hit(_GLOO, nccl=others)
    elif not any(names.selects(item) for item in gloo.split(",")):
        yield hit(_GLOO, nccl=names.text())


def _unreachable_meeting(at: Situation) -> Iterator[Hit]:
    if not at.several_nodes:
        return
    master, own = at.text("MASTER_ADDR"), at.context.host_address
    if master and choosing.loopback(master):
        yield hit("MASTER_ADDR", nodes=at.context.nodes)
    if own is None or at.text(_GLOO):
        return
    known = [address.partition("/")[0] for one in at.context.interfaces or () for address in one.addresses if one.up]
    if choosing.loopback(own):
        yield hit(
            _GLOO,
            wrong="lets Gloo take {own}, to which this host's name resolves and which no other reaches",
            instead="set GLOO_SOCKET_IFNAME=<interface>, or correct /etc/hosts",
            own=own,
        )
    elif at.context.interfaces is not None and own not in known:
        yield hit(
            _GLOO,
            "warning",
            wrong="lets Gloo take {own}, to which this host's name resolves and which no interface has",
            instead="set GLOO_SOCKET_IFNAME=<interface>, or correct the name's address",
            own=own,
        )


def _own_meeting(at: Situation) -> Iterator[Hit]:
    if at.text("NCCL_COMM_ID"):
        yield hit("NCCL_COMM_ID")


RULES = (
    Rule(
        "I4b",
        "error",
        (_GLOO, _TENSORPIPE),
        _not_there,
        wrong="names {item}, and this machine has no such interface that is up",
        instead="use one that is up: {present}",
        reason="Gloo and TensorPipe look for an interface of exactly this name, and fail without it.",
    ),
    Rule(
        "I9",
        "error",
        (_GLOO, _TENSORPIPE),
        _foreign_syntax,
        wrong="is written as for NCCL, and {reader} takes whole names without ^ and =",
        instead="write the interface's name, as eth0",
        reason="Gloo and TensorPipe look for an interface of exactly this name.",
    ),
    Rule(
        "I10",
        "warning",
        (_GLOO, _SOCKET),
        _different,
        wrong="is another interface than NCCL's, which is {nccl}",
        instead="give both the same, unless there are two networks on purpose",
        reason="If only one of the networks joins all nodes, one of the libraries hangs.",
    ),
    Rule(
        "I11",
        "error",
        ("MASTER_ADDR", _GLOO),
        _unreachable_meeting,
        wrong="is this host's loopback, at which none of {nodes} nodes finds another",
        instead="write the first node's name or address",
        reason="Ranks meet at this address, and each would look for it on its own host.",
    ),
    Rule(
        "I12",
        "warning",
        ("NCCL_COMM_ID",),
        _own_meeting,
        wrong="is not needed, since torch hands every rank the id",
        instead="remove it",
        reason="It also steers which interface NCCL takes.",
    ),
)
