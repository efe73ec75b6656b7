"""How GPUs of a node reach each other, and how near a network card must be."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.nccl.checker import reading
from trainer.nccl.checker.rule import Hit, Rule, hit
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import variables

_MIB = 2**20


def _level(at: Situation, name: str) -> str | None:
    text = at.text(name)
    return None if text is None else reading.level(text, words=at.since(2, 6))


def _direct_off(at: Situation) -> str | None:
    """The variable that keeps GPUs from reaching each other."""
    if at.number("NCCL_P2P_DISABLE") == 1:
        return "NCCL_P2P_DISABLE"
    # A word under 2.5 is judged by the rule on levels.
    meant = at.text("NCCL_P2P_LEVEL") == "LOC" or at.meant("NCCL_P2P_LEVEL") == 0
    return "NCCL_P2P_LEVEL" if meant else None


def _disabled_and_levelled(at: Situation) -> Iterator[Hit]:
    level = at.text("NCCL_P2P_LEVEL")
    if at.number("NCCL_P2P_DISABLE") == 1 and level is not None and _level(at, "NCCL_P2P_LEVEL") != "LOC":
        yield hit("NCCL_P2P_LEVEL")


def _off(at: Situation) -> Iterator[Hit]:
    name = _direct_off(at)
    if name is None:
        return
    if at.context.nvlink:
        yield hit(name, "error")
    else:
        yield hit(
            name,
            wrong="keeps GPUs of a node from reaching each other directly",
            instead="remove it; if direct traffic hangs or corrupts, look for ACS and IOMMU and for a newer driver",
        )


def _nothing_left(at: Situation) -> Iterator[Hit]:
    if at.number("NCCL_P2P_DISABLE") == 1 and at.number("NCCL_SHM_DISABLE") == 1 and at.several_here:
        left = "no way at all, since NCCL_NET_DISABLE_INTRA forbids the network, too"
        yield hit("NCCL_SHM_DISABLE", left=left if at.on("NCCL_NET_DISABLE_INTRA") else "only TCP through loopback")


def _no_shared_memory(at: Situation) -> Iterator[Hit]:
    if at.number("NCCL_SHM_DISABLE") == 1 and at.context.nvlink is False:
        yield hit("NCCL_SHM_DISABLE")


def _no_level(at: Situation) -> Iterator[Hit]:
    for name in ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"):
        text = at.text(name)
        if text is None or (reading.is_number(text) and text[0].isdigit()):
            continue
        words = variables()[name].allowed.replace("|", ", ")
        numbered = reading.level(text, words=False)
        if not at.since(2, 6):
            yield hit(
                name,
                wrong="is a word, which NCCL {release} reads as 0, that is LOC",
                instead="remove it, or update NCCL; words came with 2.6",
                release=".".join(str(part) for part in at.context.nccl or ()),
            )
        elif text[0].isdigit():
            yield hit(name, wrong="is read as {level}", words=words, level=numbered)
        elif text not in reading.LEVELS:
            meant = text.strip().strip("'\"").upper()
            better = f"write {meant}" if meant in words.split(", ") else None
            yield hit(name, instead=better, words=words)


def _below_default(at: Situation) -> Iterator[Hit]:
    near = sorted({"PIX", "PXB"} & (at.context.gpu_paths or frozenset()))
    if at.text("NCCL_P2P_LEVEL") == "NVL" and near:
        yield hit("NCCL_P2P_LEVEL", near=" and ".join(near))


def _far_cards(at: Situation) -> Iterator[Hit]:
    if _level(at, "NCCL_NET_GDR_LEVEL") == "SYS":
        yield hit("NCCL_NET_GDR_LEVEL")


def _no_access(at: Situation) -> Iterator[Hit]:
    if at.context.peer_access is False and _level(at, "NCCL_P2P_LEVEL") not in (None, "LOC"):
        yield hit("NCCL_P2P_LEVEL")


def _apart(at: Situation) -> bool:
    """Whether GPUs of this machine may have to exchange through shared memory, unless they are known not to."""
    context = at.context
    # Direct traffic goes through switches, and by default not through the host's bridge.
    near = context.gpu_paths is not None and not {"PHB", "NODE", "SYS"} & context.gpu_paths
    unsure = bool(context.gpu) and context.nvlink is not True and not (context.peer_access and near)
    return context.peer_access is False or unsure


def _small_shared_memory(at: Situation) -> Iterator[Hit]:
    size, processes = at.context.shm_bytes, at.context.processes or at.context.gpus or 1
    without = "NCCL_SHM_DISABLE" if at.number("NCCL_SHM_DISABLE") == 1 else _direct_off(at)
    if size is None or size >= 1024 * _MIB or processes < 2 or not (without or _apart(at)):
        return
    some = "do not" if at.context.peer_access is False else "may not all"
    told = {
        "NCCL_SHM_DISABLE": "avoids a /dev/shm of {size} MiB, too small for {processes} processes, by the network",
        None: f"has {{size}} MiB for {{processes}} processes that {some} reach each other's GPU",
    }
    yield hit(without or "/dev/shm", wrong=told.get(without), size=size // _MIB, processes=processes)


RULES = (
    Rule(
        "T7",
        "error",
        ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"),
        _disabled_and_levelled,
        wrong="has no effect, since NCCL_P2P_DISABLE=1 wins over it",
        instead="remove NCCL_P2P_DISABLE, and this too unless you measured that it gains",
        reason="The one switches off what the other limits.",
    ),
    Rule(
        "T8",
        "warning",
        ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"),
        _off,
        wrong="switches NVLink off",
        instead="remove it",
        reason="NVLink is direct traffic between GPUs, many times as fast as what is left without it.",
    ),
    Rule(
        "T9",
        "error",
        ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NET_DISABLE_INTRA"),
        _nothing_left,
        wrong="together with NCCL_P2P_DISABLE=1 leaves the processes of a node {left}",
        instead="remove both",
        reason="Inside a node NCCL has direct traffic, shared memory and then the network.",
    ),
    Rule(
        "T10",
        "warning",
        ("NCCL_SHM_DISABLE",),
        _no_shared_memory,
        wrong="sends what cannot go directly between GPUs through the network, inside a node too",
        instead="remove it; if shared memory fails, enlarge /dev/shm with --shm-size=1g or --ipc=host",
        reason="Without NVLink many pairs of GPUs have only shared memory.",
    ),
    Rule(
        "T13",
        "error",
        ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"),
        _no_level,
        wrong="is no level, and NCCL passes it over in silence",
        instead="remove it, or use one of {words}",
        reason="Levels are words in capitals, or numbers from old times; any other text leaves the default.",
    ),
    Rule(
        "T14",
        "warning",
        ("NCCL_P2P_LEVEL",),
        _below_default,
        wrong="restricts direct traffic to NVLink, and takes it from the pairs of GPUs that are {near} apart",
        instead="remove it",
        reason="NVL is below the default, which is PXB.",
    ),
    Rule(
        "T15",
        "warning",
        ("NCCL_NET_GDR_LEVEL",),
        _far_cards,
        wrong="lets cards reach the memory of GPUs behind another processor, which may be slower than not, or hang",
        instead="remove it, unless you measured that it gains; a virtual machine needs NCCL_TOPO_FILE instead",
        reason="Far transfers cross the link between processors.",
    ),
    Rule(
        "T18",
        "warning",
        ("NCCL_P2P_LEVEL",),
        _no_access,
        wrong="has no effect, since CUDA does not let these GPUs reach each other",
        instead="remove it",
        reason="The level only restricts; what the driver refuses it cannot give.",
    ),
    Rule(
        "T19",
        "warning",
        ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"),
        _small_shared_memory,
        wrong="makes {processes} processes exchange through /dev/shm, which has {size} MiB",
        instead="start the container with --shm-size=1g or --ipc=host, or mount memory there",
        reason="GPUs that do not reach each other directly exchange data in /dev/shm, which is 64 MiB in a container.",
    ),
)
