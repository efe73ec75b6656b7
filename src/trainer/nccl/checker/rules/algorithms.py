"""NCCL_ALGO and NCCL_PROTO, which take the choice from NCCL and may leave nothing to choose."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.nccl.checker import algorithms
from trainer.nccl.checker.algorithms import FUNCTIONS, POSSIBLE, PROTOCOLS, Entry, allowed, named
from trainer.nccl.checker.finding import Severity
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation

_ALGO, _PROTO = "NCCL_ALGO", "NCCL_PROTO"
_NEED_SIMPLE = {"nvls", "nvlstree", "collnet", "collnetdirect", "collnetchain", "pat"}


def _strict(at: Situation) -> Severity:
    # Older releases passed over what they did not know, and fell back to rings.
    return "error" if at.since(2, 24) else "warning"


def _words(at: Situation, name: str) -> frozenset[str]:
    return algorithms.known(at.context) if name == _ALGO else PROTOCOLS


def _entries(at: Situation, name: str) -> list[Entry]:
    """What is told; nothing where a word of it is unknown, which has a rule of its own."""
    return [] if _unknown(at, name) else algorithms.parse(at.text(name) or "") if at.text(name) else []


def _unknown(at: Situation, name: str) -> list[str]:
    text = at.text(name)
    entries = algorithms.parse(text) if text else []
    functions = [entry.function for entry in entries if entry.function is not None]
    wrong = [one for one in functions if one not in FUNCTIONS or not at.since(2, 24)]
    return wrong + [word for entry in entries for word in entry.words if word not in _words(at, name)]


def _left(at: Situation) -> dict[str, frozenset[str]]:
    """What NCCL_ALGO leaves of the algorithms that each function has."""
    entries = _entries(at, _ALGO)
    return {one: allowed(entries, one, _words(at, _ALGO)) & POSSIBLE[one] for one in FUNCTIONS} if entries else {}


def _misspelt(at: Situation) -> Iterator[Hit]:
    for name in (_ALGO, _PROTO):
        wrong = _unknown(at, name)
        if wrong:
            words = listed(repr(word) for word in wrong)
            yield hit(name, _strict(at), wrong_words=words, words=", ".join(sorted(_words(at, name))))


def _without_ring(at: Situation) -> Iterator[Hit]:
    rest = [entry for entry in _entries(at, _ALGO) if entry.function is None]
    if not rest or rest[0].forbids:
        return
    empty = [one for one, left in _left(at).items() if not left]
    if empty and "ring" not in rest[0].words:
        algo = ",".join(rest[0].words)
        yield hit(_ALGO, _strict(at), empty=listed(empty), better=f"allreduce:{algo}", ring=f"{algo},ring")


def _nothing_left(at: Situation) -> Iterator[Hit]:
    rest = [entry for entry in _entries(at, _ALGO) if entry.function is None]
    empty = [one for one, left in _left(at).items() if not left]
    if empty and not (rest and not rest[0].forbids and "ring" not in rest[0].words):
        yield hit(_ALGO, _strict(at), empty=listed(empty))


def _needs_simple(at: Situation) -> Iterator[Hit]:
    algos, protocols = _entries(at, _ALGO), _entries(at, _PROTO)
    for entry in algos:
        need = sorted(set(entry.words) & _NEED_SIMPLE) if not entry.forbids else []
        functions = [entry.function] if entry.function else FUNCTIONS
        without = [one for one in functions if protocols and "simple" not in allowed(protocols, one, PROTOCOLS)]
        if need and without:
            yield hit(_PROTO, algos=listed(need))
            return


def _multicast_off(at: Situation) -> Iterator[Hit]:
    asked = sorted(word for word in named(_entries(at, _ALGO)) if word.startswith("nvls"))
    if asked and at.number("NCCL_NVLS_ENABLE") == 0:
        yield hit(_ALGO, asked=listed(asked), text=at.text("NCCL_NVLS_ENABLE"))


def _switches_off(at: Situation) -> Iterator[Hit]:
    asked = sorted(word for word in named(_entries(at, _ALGO)) if word.startswith("collnet"))
    if asked and not at.on("NCCL_COLLNET_ENABLE"):
        yield hit(_ALGO, asked=listed(asked))


def _wrong_number_of_nodes(at: Situation) -> Iterator[Hit]:
    for function, left in _left(at).items():
        if left == {"nvlstree"} and at.context.nodes == 1:
            yield hit(_ALGO, _strict(at), what="nvlstree", function=function, where="one node")
        if left == {"nvls"} and at.several_nodes and not at.on("NCCL_COLLNET_ENABLE"):
            yield hit(_ALGO, _strict(at), what="nvls", function=function, where=f"{at.context.nodes} nodes")


def _several_a_node(at: Situation) -> Iterator[Hit]:
    functions = [function for function, left in _left(at).items() if left == {"pat"}]
    if functions and (at.context.processes or 1) > 1:
        yield hit(_ALGO, _strict(at), functions=listed(functions), processes=at.context.processes)


def _chosen(at: Situation) -> Iterator[Hit]:
    for name in at.given(_ALGO, _PROTO):
        tuner = at.text("NCCL_TUNER_PLUGIN")
        more = f", and from the tuner {tuner}" if tuner and tuner.lower() != "none" else ""
        yield hit(name, more=more, kind="algorithms" if name == _ALGO else "protocols")


def _tree_in_a_node(at: Situation) -> Iterator[Hit]:
    if _left(at).get("allreduce") == {"tree"} and at.context.nodes == 1:
        yield hit(_ALGO)


def _unsafe_protocol(at: Situation) -> Iterator[Hit]:
    if at.context.ll128 is False and "ll128" in named(_entries(at, _PROTO)):
        yield hit(_PROTO)


def _second_for_all(at: Situation) -> Iterator[Hit]:
    for name in (_ALGO, _PROTO):
        if any(entry.function is None for entry in _entries(at, name)[1:]):
            yield hit(name, _strict(at))


def _not_for_messages(at: Situation) -> Iterator[Hit]:
    if at.context.messages:
        for name in at.given(_ALGO, "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"):
            yield hit(
                name,
                wrong=None if name == _ALGO else "does not bound send, receive and all-to-all",
                instead=None if name == _ALGO else "set NCCL_MAX_P2P_NCHANNELS, if these are meant",
            )


def _deterministic(at: Situation) -> Iterator[Hit]:
    nvls = {word for left in _left(at).values() for word in left if word.startswith("nvls")}
    if at.context.deterministic and nvls:
        yield hit(_ALGO)


def _multicast_unused(at: Situation) -> Iterator[Hit]:
    left = _left(at)
    if left and at.number("NCCL_NVLS_ENABLE") == 1 and not any({"nvls", "nvlstree"} & words for words in left.values()):
        yield hit("NCCL_NVLS_ENABLE", algo=at.text(_ALGO))


RULES = (
    Rule(
        "A1",
        "error",
        (_ALGO, _PROTO),
        _misspelt,
        wrong="has {wrong_words}, which this NCCL does not know",
        instead="remove it, or use {words}, as allreduce:tree from 2.24 on",
        reason="From 2.24 on an unknown word fails the start; before, it was passed over in silence.",
    ),
    Rule(
        "A2",
        "error",
        (_ALGO,),
        _without_ring,
        wrong="leaves {empty} without an algorithm",
        instead="write {better}, or {ring}, or remove it",
        reason="A list without a function holds for all; before 2.24 such calls fell back to ring with every protocol.",
    ),
    Rule(
        "A3",
        "error",
        (_ALGO,),
        _nothing_left,
        wrong="leaves {empty} without an algorithm",
        instead="remove it, or keep ring for them",
        reason="Broadcast and reduce have only ring, so that forbidding it leaves them nothing.",
    ),
    Rule(
        "A4",
        "error",
        (_PROTO, _ALGO),
        _needs_simple,
        wrong="leaves out Simple, the only protocol of {algos}, which NCCL_ALGO asks for",
        instead="remove NCCL_PROTO",
        reason="Algorithms that add up in switches, and PAT, have no low-latency form.",
    ),
    Rule(
        "A5",
        "error",
        (_ALGO, "NCCL_NVLS_ENABLE"),
        _multicast_off,
        wrong="asks for {asked}, which NCCL_NVLS_ENABLE={text} switches off",
        instead="remove both",
        reason="NCCL uses NVLS by itself where the NVLink switch can add up.",
    ),
    Rule(
        "A6",
        "error",
        (_ALGO, "NCCL_COLLNET_ENABLE"),
        _switches_off,
        wrong="asks for {asked}, which is off unless NCCL_COLLNET_ENABLE=1",
        instead="remove it, or set NCCL_COLLNET_ENABLE=1 where the network has SHARP",
        reason="CollNet needs switches that add up, and a plugin that speaks to them.",
    ),
    Rule(
        "A7",
        "error",
        (_ALGO,),
        _wrong_number_of_nodes,
        wrong="leaves only {what} for {function}, which {where} cannot use",
        instead="remove it",
        reason="NVLSTree joins nodes, and NVLS alone stays inside one.",
    ),
    Rule(
        "A8",
        "error",
        (_ALGO,),
        _several_a_node,
        wrong="leaves only pat for {functions}, which works with one process a node, not {processes}",
        instead="remove it",
        reason="PAT is made for one GPU a node.",
    ),
    Rule(
        "A9",
        "warning",
        (_ALGO, _PROTO, "NCCL_TUNER_PLUGIN"),
        _chosen,
        wrong="takes the choice of {kind} from NCCL{more}; it is a list of what may be used, not an order or hierarchy",
        instead="remove it, unless this is a measurement",
        reason="NCCL chooses anew for every size and function by a model of this machine.",
    ),
    Rule(
        "A10",
        "warning",
        (_ALGO,),
        _tree_in_a_node,
        wrong="is a mere chain in one node, for large messages never better than ring",
        instead="remove it",
        reason="Trees join nodes; inside a node they are a chain of its GPUs.",
    ),
    Rule(
        "A11",
        "error",
        (_PROTO,),
        _unsafe_protocol,
        wrong="asks for LL128 on hardware on which NCCL does not choose it, where it may corrupt data",
        instead="remove it; ^LL128 to forbid it is safe",
        reason="LL128 needs stores of 128 bytes that no part of the way divides.",
    ),
    Rule(
        "A12",
        "error",
        (_ALGO, _PROTO),
        _second_for_all,
        wrong="has a second part without a function, which fails the start from 2.24 on",
        instead="write the function before it, as allreduce:tree",
        reason="Only the first part may hold for all functions.",
    ),
    Rule(
        "A13",
        "warning",
        (_ALGO, "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"),
        _not_for_messages,
        wrong="does not touch send, receive and all-to-all, which have no algorithms",
        instead="remove it, if these are what it is for",
        reason="Pipelines and experts send from rank to rank, with channels of their own.",
    ),
    Rule(
        "A14",
        "warning",
        (_ALGO,),
        _deterministic,
        wrong="keeps torch from ^NVLS, which it sets for deterministic algorithms only where nothing is set",
        instead="remove it, or write ^NVLS,NVLSTree",
        reason="NVLink's switch adds in an order of its own.",
    ),
    Rule(
        "A15",
        "warning",
        ("NCCL_NVLS_ENABLE", _ALGO),
        _multicast_unused,
        wrong="has no effect, since NCCL_ALGO={algo} leaves NVLS out",
        instead="remove both",
        reason="An algorithm that is not in the list is not used, whatever else is switched on.",
    ),
)
