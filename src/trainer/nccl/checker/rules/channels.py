"""Channels, threads and buffers: numbers that NCCL mostly knows better."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.nccl.checker import reading
from trainer.nccl.checker.rule import Hit, Rule, hit
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import variables

_THREADS, _SOCKETS = "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"
_PIECES = (
    "NCCL_CHUNK_SIZE",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_NVLS_CHUNKSIZE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE",
)
_POLICIES = {"default", "efficiency", "zero"}


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _more_than_most(at: Situation) -> Iterator[Hit]:
    for least, most in (("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"), ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")):
        low, high = at.meant(least), at.meant(most)
        if low is not None and high is not None and low > high:
            yield hit(least, most=f"{most}={high}", name=most)


def _old_and_new(at: Situation) -> Iterator[Hit]:
    for old, new, wins in (
        ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "lower"),
        ("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS", "higher"),
    ):
        if at.text(old) is not None and at.text(new) is not None:
            yield hit(old, new=new, wins=wins)


def _threads_of_a_block(at: Situation) -> Iterator[Hit]:
    value = at.meant("NCCL_NTHREADS")
    if value == 64:
        yield hit(
            "NCCL_NTHREADS",
            "warning",
            wrong="is the least there is, with which receiving has failed",
            instead="remove it",
        )
    elif value is not None and value not in (128, 256, 512):
        yield hit("NCCL_NTHREADS")


def _buffers(at: Situation) -> Iterator[Hit]:
    low_latency_128, low_latency = at.meant("NCCL_LL128_BUFFSIZE"), at.meant("NCCL_LL_BUFFSIZE")
    if low_latency_128 is not None and (low_latency_128 % 120 or not _power_of_two(low_latency_128 // 120)):
        yield hit("NCCL_LL128_BUFFSIZE", form="120 times a power of two", what="may hang")
    if low_latency is not None and (low_latency % 2 or low_latency <= 0):
        yield hit("NCCL_LL_BUFFSIZE", form="even", what="may hang")
    simple = at.meant("NCCL_BUFFSIZE")
    if simple is not None and not _power_of_two(simple):
        yield hit("NCCL_BUFFSIZE", "warning", form="a power of two", what="has given wrong results")


def _large_pieces(at: Situation) -> Iterator[Hit]:
    for name in _PIECES:
        if (at.meant(name) or 0) >= 2**20:
            yield hit(name)


def _too_many_sockets(at: Situation) -> Iterator[Hit]:
    threads, sockets = at.meant(_THREADS), at.meant(_SOCKETS)
    if threads is not None and not 1 <= threads <= 16:
        yield hit(_THREADS)
    elif sockets is not None and not 1 <= sockets <= 64:
        yield hit(_SOCKETS, wrong="is none of 1 to 64 connections a thread")
    elif threads is not None and sockets is not None and threads * sockets > 64:
        yield hit(
            _SOCKETS,
            wrong="makes {product} connections with NCCL_SOCKET_NTHREADS={threads}, of which NCCL keeps 64",
            threads=threads,
            product=threads * sockets,
        )


def _no_sockets(at: Situation) -> Iterator[Hit]:
    if at.rdma or at.context.net == "efa":
        nets = {"ib": "InfiniBand", "roce": "RoCE", "efa": "EFA"}
        for name in at.given(_THREADS, _SOCKETS):
            yield hit(name, net=nets[at.context.net or ""])


def _policy(at: Situation) -> Iterator[Hit]:
    text = at.text("NCCL_CTA_POLICY")
    if text is None or (reading.is_number(text) and reading.within(reading.number(text) or 0, "0..2")):
        return
    words = set(text.lower().split("|"))
    if not words <= _POLICIES:
        yield hit("NCCL_CTA_POLICY", wrong="is no policy", instead="remove it, or use DEFAULT, EFFICIENCY or ZERO")
    elif {"zero", "efficiency"} <= words:
        yield hit("NCCL_CTA_POLICY")
    elif not at.since(2, 29):
        yield hit(
            "NCCL_CTA_POLICY",
            wrong="is a word, which NCCL reads as 0 before 2.29",
            instead="write 0, 1 or 2 for DEFAULT, EFFICIENCY or ZERO",
        )


def _stream_order(at: Situation) -> Iterator[Hit]:
    if at.number("NCCL_GRAPH_STREAM_ORDERING") == 0 and at.number("NCCL_GRAPH_MIXING_SUPPORT") != 0:
        yield hit("NCCL_GRAPH_STREAM_ORDERING")


def _from_the_source(at: Situation) -> Iterator[Hit]:
    for name in at.values:
        row = variables().get(name)
        if row is not None and row.guide == "tuning" and at.text(name) is not None:
            yield hit(name)


RULES = (
    Rule(
        "C1",
        "error",
        ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        _more_than_most,
        wrong="is more than {most}, to which NCCL lowers it in silence",
        instead="remove it, or raise {name}",
        reason="The least cannot be more than the most.",
    ),
    Rule(
        "C2",
        "warning",
        ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        _old_and_new,
        wrong="is the old name of {new}, which is set as well; the {wins} of both counts",
        instead="remove it",
        reason="Since 2.17 NCCL counts thread blocks where it counted channels.",
    ),
    Rule(
        "C3",
        "error",
        ("NCCL_NTHREADS",),
        _threads_of_a_block,
        wrong="is none of 128, 256 and 512 threads a block",
        instead="remove it; for threads of TCP connections set NCCL_SOCKET_NTHREADS",
        reason="Other numbers have given wrong results, or are replaced by the most.",
    ),
    Rule(
        "C5",
        "error",
        ("NCCL_LL128_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_BUFFSIZE"),
        _buffers,
        wrong="is not {form}, which {what}",
        instead="remove it",
        reason="Protocols cut their buffers into lines and steps of fixed sizes.",
    ),
    Rule(
        "C6",
        "warning",
        _PIECES,
        _large_pieces,
        wrong="is 1 MiB or more, with which data have come out wrong",
        instead="remove it",
        reason="Pieces must fit the steps of a connection's buffer.",
    ),
    Rule(
        "C7",
        "error",
        (_THREADS, _SOCKETS),
        _too_many_sockets,
        wrong="is none of 1 to 16 threads a connection",
        instead="use NCCL_SOCKET_NTHREADS=4 and NCCL_NSOCKS_PERTHREAD=4 for 100 Gb/s, or nothing",
        reason="NCCL takes at most 16 threads, and 64 connections in all.",
    ),
    Rule(
        "C8",
        "warning",
        (_THREADS, _SOCKETS),
        _no_sockets,
        wrong="has no effect on {net}",
        instead="remove it",
        reason="Only plain TCP sends with these threads and connections.",
    ),
    Rule(
        "C9",
        "error",
        ("NCCL_CTA_POLICY",),
        _policy,
        wrong="asks for ZERO and EFFICIENCY, which exclude each other",
        instead="write one of them",
        reason="One spends few thread blocks, the other none.",
    ),
    Rule(
        "C10",
        "error",
        ("NCCL_GRAPH_STREAM_ORDERING", "NCCL_GRAPH_MIXING_SUPPORT"),
        _stream_order,
        wrong="gives up an order that NCCL_GRAPH_MIXING_SUPPORT, on by default, needs",
        instead="remove it, or set NCCL_GRAPH_MIXING_SUPPORT=0",
        reason="Captured and other communication may run in turn only where captured kernels stay in order.",
    ),
    Rule(
        "C11",
        "warning",
        ("NCCL_*",),
        _from_the_source,
        wrong="stands in no guide, only in NCCL's source",
        instead="remove it, unless you measured that it gains with this very release",
        reason="Such knobs change from release to release, and some values hang.",
    ),
)
