"""What the network between RDMA devices needs: addresses, classes, timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address

from trainer.nccl.checker import choosing, reading
from trainer.nccl.checker.finding import Severity
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation

_INDEX = "NCCL_IB_GID_INDEX"
_CHOICE = ("NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM")


def _index(at: Situation) -> int | None:
    value = at.number(_INDEX)
    return value if value is not None and value >= 0 else None


def _index_unneeded(at: Situation) -> Iterator[Hit]:
    if _index(at) is None:
        return
    if at.context.net == "ib":
        yield hit(_INDEX, wrong="has no effect on InfiniBand", instead="remove it")
    elif at.context.net in (None, "roce") and at.since(2, 21):
        yield hit(_INDEX)


def _index_wins(at: Situation) -> Iterator[Hit]:
    others = at.given(*_CHOICE)
    if _index(at) is not None and others:
        yield hit(_INDEX, others=listed(others))


def _index_points(at: Situation) -> Iterator[Hit]:
    index = _index(at)
    # One node has no use for the address.
    severity: Severity = "warning" if at.context.nodes == 1 else "error"
    kinds: dict[str, str] = {}
    if index is None:
        return
    for device in choosing.devices(at):
        if device.link != "ethernet" or not (device.active and device.gids):
            continue
        gid = next((one for one in device.gids if one.index == index), None)
        address = IPv6Address(gid.address) if gid else IPv6Address(0)
        if gid is None or address.is_unspecified:
            yield hit(_INDEX, severity, wrong="is an empty row of {device}'s address table", device=device.name)
        elif address.is_link_local:
            yield hit(_INDEX, severity, device=device.name, address=gid.address)
        elif gid.roce == 1:
            yield hit(_INDEX, wrong="is RoCE v1 on {device}, which no router passes on", device=device.name)
        else:
            kinds[device.name] = "IPv4" if address.ipv4_mapped else "IPv6"
    if len(set(kinds.values())) > 1:
        each = listed(f"{kind} on {name}" for name, kind in kinds.items())
        yield hit(_INDEX, wrong="is not the same on all devices: {each}", each=each)


def _waits_for_ever(at: Situation) -> Iterator[Hit]:
    value = at.meant("NCCL_IB_TIMEOUT")
    if value is not None and not 1 <= value <= 31:
        yield hit("NCCL_IB_TIMEOUT")


def _gives_up_at_once(at: Situation) -> Iterator[Hit]:
    timeout, retries = at.meant("NCCL_IB_TIMEOUT"), at.meant("NCCL_IB_RETRY_CNT")
    if timeout is not None and 1 <= timeout < 14:
        yield hit("NCCL_IB_TIMEOUT", ms=f"{4.096e-3 * 2**timeout:.3g}")
    if retries == 0:
        yield hit(
            "NCCL_IB_RETRY_CNT",
            wrong="sends nothing again, so that the first lost packet ends the run",
            instead="remove it; the default, 7, is also the most",
        )


def _too_many_retries(at: Situation) -> Iterator[Hit]:
    value = at.meant("NCCL_IB_RETRY_CNT")
    if value is not None and not 0 <= value <= 7:
        yield hit("NCCL_IB_RETRY_CNT")


def _no_class(at: Situation) -> Iterator[Hit]:
    for name, what, most in (("NCCL_IB_TC", "traffic class", 255), ("NCCL_IB_SL", "service level", 15)):
        value = at.meant(name)
        if value is not None and not reading.within(value, f"-1..{most}"):
            yield hit(name, what=what, most=most)


def _locked_memory(at: Situation) -> Iterator[Hit]:
    # Where nobody says what the network is, NCCL takes the cards that it finds.
    left = at.context.net is None and at.several_nodes and any(one.active for one in at.context.devices or ())
    if at.context.memory_lockable is False and (at.rdma or left) and choosing.verbs(at):
        yield hit("ulimit -l")


def _class_of_machine(at: Situation) -> Iterator[Hit]:
    machine = at.context.traffic_class
    if machine and at.context.net == "roce" and at.text("NCCL_IB_TC") is None:
        yield hit("NCCL_IB_TC", machine=machine)


RULES = (
    Rule(
        "B5",
        "warning",
        (_INDEX,),
        _index_unneeded,
        wrong="fixes a row of the address table, which differs between cards and changes in containers",
        instead="remove it: NCCL finds the row since 2.21; NCCL_IB_ADDR_RANGE tells it the subnet",
        reason="A fixed row may be a link-local or an old address.",
    ),
    Rule(
        "B6",
        "error",
        (_INDEX, *_CHOICE),
        _index_wins,
        wrong="wins over {others}, which can have no effect",
        instead="remove NCCL_IB_GID_INDEX",
        reason="The others tell NCCL how to look for a row, and a fixed one is not looked for.",
    ),
    Rule(
        "B7",
        "warning",
        (_INDEX,),
        _index_points,
        wrong="is {address} on {device}, which no other subnet reaches",
        instead="remove it, or take the row of RoCE v2 and IPv4 that `show_gids` prints",
        reason="Connections are made to the address in this row.",
    ),
    Rule(
        "B8",
        "error",
        ("NCCL_IB_TIMEOUT",),
        _waits_for_ever,
        wrong="makes a card wait for ever for an answer",
        instead="use 22 (about 17 s a try) or 23 (34 s) for links that flap, or remove it",
        reason="The value is an exponent of five bits, and 0 stands for no timeout.",
    ),
    Rule(
        "B8b",
        "warning",
        ("NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"),
        _gives_up_at_once,
        wrong="waits {ms} ms for an answer, so that a short disturbance ends the run",
        instead="remove it; the default is 20",
        reason="What is not answered in time, as often as it may be sent again, is an error that ends the run.",
    ),
    Rule(
        "B9",
        "error",
        ("NCCL_IB_RETRY_CNT",),
        _too_many_retries,
        wrong="does not fit: the card has three bits for it",
        instead="remove it; the default, 7, is also the most",
        reason="What is cut off is lost in silence, and 8 becomes 0.",
    ),
    Rule(
        "B10",
        "error",
        ("NCCL_IB_TC", "NCCL_IB_SL"),
        _no_class,
        wrong="is no {what}, which goes from 0 to {most}",
        instead="ask who runs the network, or remove it",
        reason="A class that does not exist puts packets into the wrong queue.",
    ),
    Rule(
        "B14",
        "warning",
        ("ulimit -l",),
        _locked_memory,
        wrong="is limited, so that registering memory with the card may fail",
        instead="start with --ulimit memlock=-1, or set memlock unlimited in /etc/security/limits.conf",
        reason="A card writes only to memory that cannot be moved.",
    ),
    Rule(
        "B15",
        "warning",
        ("NCCL_IB_TC",),
        _class_of_machine,
        wrong="leaves GPU-initiated transfers without the machine's traffic class {machine}",
        instead="set NCCL_IB_TC={machine}",
        reason="The kernel's setting holds for connections of the host, not for those that a GPU starts.",
    ),
)
