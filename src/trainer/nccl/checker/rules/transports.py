"""Networks, and what they are switched on and off with."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation


def _network(at: Situation) -> str:
    return (at.text("NCCL_NET") or "").lower()


def _no_plugin(at: Situation) -> bool:
    return (at.text("NCCL_NET_PLUGIN") or "").lower() == "none"


def _disabled_and_set_up(at: Situation) -> Iterator[Hit]:
    others = [name for name in at.begins("NCCL_IB_") if name != "NCCL_IB_DISABLE"]
    if at.on("NCCL_IB_DISABLE") and others:
        yield hit("NCCL_IB_DISABLE", others=listed(others))


def _disabled_where_needed(at: Situation) -> Iterator[Hit]:
    if at.on("NCCL_IB_DISABLE") and at.rdma:
        yield hit("NCCL_IB_DISABLE", net="InfiniBand" if at.context.net == "ib" else "RoCE", preset=at.context.net)


def _socket_and_verbs(at: Situation) -> Iterator[Hit]:
    if _network(at) != "socket":
        return
    others = [name for name in at.begins("NCCL_IB_", "NCCL_NET_GDR_") if name != "NCCL_IB_DISABLE"]
    if others:
        yield hit("NCCL_NET", others=listed(others))
    if at.rdma:
        yield hit(
            "NCCL_NET",
            wrong="is plain TCP, which leaves {net} unused",
            instead="remove it, since RoCE goes by NCCL's IB network, too; or choose nccl=ethernet if TCP is meant",
            net="InfiniBand" if at.context.net == "ib" else "RoCE",
        )


def _named_and_disabled(at: Situation) -> Iterator[Hit]:
    if _network(at) == "ib" and at.on("NCCL_IB_DISABLE"):
        yield hit("NCCL_NET", disabled=at.text("NCCL_IB_DISABLE"))


def _named_without_plugin(at: Situation) -> Iterator[Hit]:
    if _network(at) not in ("", "ib", "socket") and _no_plugin(at):
        yield hit("NCCL_NET", name=at.text("NCCL_NET"))


def _plugin_not_covered(at: Situation) -> Iterator[Hit]:
    plugin = at.context.plugin
    if (
        plugin
        and at.on("NCCL_IB_DISABLE")
        and not (_network(at) or _no_plugin(at) or at.on("NCCL_IBEXT_DISABLE") or at.rdma)
    ):
        yield hit("NCCL_IB_DISABLE", plugin=plugin)


def _racks(at: Situation) -> Iterator[Hit]:
    if at.number("NCCL_MNNVL_ENABLE") != 1:
        return
    missing = [
        f"{name}={value}"
        for name, value in (("NCCL_P2P_DISABLE", 1), ("NCCL_CUMEM_ENABLE", 0))
        if at.number(name) == value
    ]
    if missing:
        yield hit("NCCL_MNNVL_ENABLE", others=listed(missing))


def _switches_without_plugin(at: Situation) -> Iterator[Hit]:
    if at.on("NCCL_COLLNET_ENABLE") and _no_plugin(at):
        yield hit("NCCL_COLLNET_ENABLE")


def _shared_gpus(at: Situation) -> Iterator[Hit]:
    if at.number("NCCL_NVLS_ENABLE") == 1 and at.on("NCCL_MULTI_RANK_GPU_ENABLE"):
        yield hit("NCCL_NVLS_ENABLE")


def _forced_multicast(at: Situation) -> Iterator[Hit]:
    if at.context.multicast is False and at.number("NCCL_NVLS_ENABLE") != 0:
        yield hit(
            "NCCL_NVLS_ENABLE",
            wrong="is on, and the NVLink switch's multicast does not work, which fails when a communicator is made",
            instead="check nvidia-fabricmanager; until it works set NCCL_NVLS_ENABLE=0",
        )
    elif at.number("NCCL_NVLS_ENABLE") == 1:
        yield hit("NCCL_NVLS_ENABLE")


def _switched_on_by_default(at: Situation) -> Iterator[Hit]:
    if at.meant("NCCL_IB_DISABLE") == 0:
        yield hit("NCCL_IB_DISABLE")


RULES = (
    Rule(
        "T1",
        "error",
        ("NCCL_IB_DISABLE", "NCCL_IB_*"),
        _disabled_and_set_up,
        wrong="switches off InfiniBand and RoCE, so {others} can have no effect",
        instead="remove NCCL_IB_DISABLE, or the others",
        reason="One half of these settings wants the RDMA network and the other forbids it.",
    ),
    Rule(
        "T2",
        "error",
        ("NCCL_IB_DISABLE",),
        _disabled_where_needed,
        wrong="switches off {net}, which nccl={preset} is for",
        instead="remove it",
        reason="RoCE is a part of NCCL's InfiniBand network; without it all traffic between nodes is TCP.",
    ),
    Rule(
        "T3",
        "error",
        ("NCCL_NET", "NCCL_IB_*", "NCCL_NET_GDR_*"),
        _socket_and_verbs,
        wrong="is plain TCP, so {others} can have no effect",
        instead="remove NCCL_NET for InfiniBand and RoCE, or the others for TCP",
        reason="Socket is TCP even on a card that can do RDMA.",
    ),
    Rule(
        "T4",
        "error",
        ("NCCL_NET", "NCCL_IB_DISABLE"),
        _named_and_disabled,
        wrong="asks for the network that NCCL_IB_DISABLE={disabled} switches off, so NCCL finds none and fails",
        instead="remove NCCL_IB_DISABLE",
        reason="A network that is asked for by name has no other to fall back to.",
    ),
    Rule(
        "T5",
        "error",
        ("NCCL_NET", "NCCL_NET_PLUGIN"),
        _named_without_plugin,
        wrong="asks for the network {name} of a plugin, and NCCL_NET_PLUGIN=none loads none",
        instead="remove NCCL_NET_PLUGIN, or NCCL_NET",
        reason="NCCL itself has only IB and Socket; a name that nobody offers is fatal.",
    ),
    Rule(
        "T6",
        "warning",
        ("NCCL_IB_DISABLE", "NCCL_IBEXT_DISABLE", "NCCL_NET"),
        _plugin_not_covered,
        wrong="does not reach the network plugin {plugin}, which goes on using RDMA",
        instead="set NCCL_NET=Socket, or for HPC-X also NCCL_IBEXT_DISABLE=1",
        reason="The switch is that of NCCL's own network; external plugins do not look at it.",
    ),
    Rule(
        "T11",
        "error",
        ("NCCL_MNNVL_ENABLE", "NCCL_P2P_DISABLE", "NCCL_CUMEM_ENABLE"),
        _racks,
        wrong="requires NVLink between nodes, which {others} switches off",
        instead="remove the one or the other",
        reason="NVLink between nodes is direct traffic between GPUs on CUDA's virtual memory.",
    ),
    Rule(
        "T12",
        "error",
        ("NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN"),
        _switches_without_plugin,
        wrong="needs the SHARP plugin, and NCCL_NET_PLUGIN=none loads none",
        instead="remove NCCL_NET_PLUGIN, or NCCL_COLLNET_ENABLE",
        reason="NCCL speaks to switches that add up only through a network plugin.",
    ),
    Rule(
        "T16",
        "error",
        ("NCCL_NVLS_ENABLE", "NCCL_MULTI_RANK_GPU_ENABLE"),
        _shared_gpus,
        wrong="cannot be had with NCCL_MULTI_RANK_GPU_ENABLE, so that NCCL fails",
        instead="remove NCCL_NVLS_ENABLE",
        reason="NVLink's multicast reaches GPUs, and ranks that share one cannot be told apart.",
    ),
    Rule(
        "T17",
        "warning",
        ("NCCL_NVLS_ENABLE",),
        _forced_multicast,
        wrong="is the default but for skipping the test whether the driver can do it",
        instead="remove it; if NCCL fails to allocate for NVLS, check nvidia-fabricmanager",
        reason="The default, 2, uses the NVLink switch wherever that can add up.",
    ),
    Rule(
        "default",
        "warning",
        ("NCCL_IB_DISABLE",),
        _switched_on_by_default,
        wrong="is the default and switches nothing on",
        instead="remove it; if InfiniBand is not used, look for /dev/infiniband and for the ports' state",
        reason="NCCL uses InfiniBand and RoCE wherever it finds a device.",
    ),
)
