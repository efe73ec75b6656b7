"""The spans of one recorded step as bars: which bucket had the link, when its bytes moved, and at what rate."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from trainer.overlap import stages
from trainer.overlap.evidence import Event
from trainer.overlap.interval import Interval, length, subtract
from trainer.overlap.meter import AWAITS, COMPUTE, SENDS, SHARED, SHARED_WAIT
from trainer.report import units

# The kinds of bars of the training thread, which does one thing at a time.
THREAD = ("data", *COMPUTE, "weights", "wait", "bubble")
LETTERS = {"forward": "F", "backward": "B", "weights": "W"}
# Buckets that really travel side by side are drawn in so many rows at most.
ROWS = 3


class Bar(NamedTuple):
    """Something to draw, or a row of the table."""

    rank: int
    kind: str
    """one of THREAD, mostly the lane; `comm`, a bucket; `moves`, the part of a bucket's time in which its bytes move;
    `send`, a message to a neighbouring stage"""
    name: str
    start_ms: float
    end_ms: float
    size: float = 0.0
    """bytes of gradients, or of a message"""
    sent: float = 0.0
    """bytes that the rank sent"""
    gbit_per_s: float | None = None
    queued_ms: float = 0.0
    """how long the bucket or message stood behind others before `start_ms`"""
    row: int = 0
    """buckets, or messages, in different rows travel side by side"""


def bars(timeline: Sequence[Sequence[Event]], serial: bool) -> list[Bar]:
    """All bars of all ranks; `serial` says that buckets travel one by one, so that one that waits is not travelling.

    The courier and NCCL's stream are serial. Gloo takes several buckets at once, and when it begins one is not known.
    """
    plain = [
        Bar(rank, *_kind_and_name(event), event.start_ms, event.end_ms)
        for rank, events in enumerate(timeline)
        for event in events
        if event.lane in (*THREAD, *AWAITS, SHARED_WAIT)
    ]
    buckets = [_buckets(rank, events, serial) for rank, events in enumerate(timeline)]
    parts = held(timeline)
    moving = [
        _moving(events, mine, [other for other, its in zip(buckets, parts, strict=True) if its == part])
        for events, mine, part in zip(timeline, buckets, parts, strict=True)
    ]
    sent = [_messages(rank, events) for rank, events in enumerate(timeline)]
    return [*plain, *itertools.chain(*buckets, *moving, *sent)]


def held(timeline: Sequence[Sequence[Event]]) -> list[tuple[int, ...]]:
    """The stages of a pipeline that each rank has."""
    return [stages.held(event.name for event in events) for events in timeline]


def exposed(events: Sequence[Event]) -> list[Interval]:
    """When a rank communicates and computes nothing."""
    spans = {lane: [(e.start_ms, e.end_ms) for e in events if e.lane == lane] for lane in ("comm", *COMPUTE)}
    return subtract(spans["comm"], [span for lane in COMPUTE for span in spans[lane]])


def work_ms(events: Sequence[Event]) -> float:
    """What a rank does on its own: the rank with the most of it is the one that the others wait for."""
    return length((e.start_ms, e.end_ms) for e in events if e.lane in ("data", *COMPUTE))


def _buckets(rank: int, events: Sequence[Event], serial: bool) -> list[Bar]:
    """The rank's buckets in the order in which their hooks were called, which is the same on all ranks."""
    exchanges = [(event.start_ms, event.end_ms) for event in events if event.lane == "exchange"]
    spans = [event for event in events if event.lane == "comm"]
    in_turns = serial or bool(exchanges)
    rows = [0] * len(spans) if in_turns else _pack([(event.start_ms, event.end_ms) for event in spans])
    queued = in_turns or max(rows, default=0) >= ROWS
    found: list[Bar] = []
    ends: list[float] = []
    for event, row in zip(spans, rows, strict=True):
        start = event.start_ms
        before = bisect.bisect_left(ends, event.end_ms)
        if queued and before:
            start = max(start, ends[before - 1])
        bisect.insort(ends, event.end_ms)
        inside = [(max(start, a), min(event.end_ms, b)) for a, b in exchanges]
        moving = length(inside) if exchanges else event.end_ms - (start if in_turns else event.start_ms)
        found.append(
            Bar(
                rank,
                "comm",
                event.name,
                start,
                event.end_ms,
                event.size,
                event.bytes,
                event.bytes * 8e-6 / moving if moving > 0 and event.bytes > 0 else None,
                start - event.start_ms,
                0 if queued else row,
            )
        )
    return found


def _moving(events: Sequence[Event], mine: list[Bar], alike: list[list[Bar]]) -> list[Bar]:
    """The exchanges of a hook that has them; else a bucket moves from when the last rank has come to it.

    `alike` are the buckets of all ranks that hold the same part of the model.
    """
    exchanges = [event for event in events if event.lane == "exchange"]
    if exchanges:
        return [
            Bar(mine[0].rank, "moves", _in_bucket(event, mine), event.start_ms, event.end_ms, sent=event.bytes)
            for event in exchanges
        ]
    comparable = len({len(buckets) for buckets in alike}) == 1
    moving = []
    for place, bucket in enumerate(mine):
        came = max(buckets[place].start_ms for buckets in alike) if comparable else bucket.start_ms
        moving.append(bucket._replace(kind="moves", start_ms=min(came, bucket.end_ms)))
    return moving


def _messages(rank: int, events: Sequence[Event]) -> list[Bar]:
    """What the rank sends to other parts of the model: a row for each direction, in which messages go one by one."""
    found: list[Bar] = []
    directions = [lane for lane in (SHARED, *SENDS) if any(event.lane == lane for event in events)]
    for row, lane in enumerate(directions):
        free = 0.0
        for event in sorted((event for event in events if event.lane == lane), key=lambda event: event.start_ms):
            start = min(max(event.start_ms, free), event.end_ms)
            free, moving = event.end_ms, event.end_ms - start
            rate = event.bytes * 8e-6 / moving if moving > 0 and event.bytes > 0 else None
            times = (start, event.end_ms, event.size, event.bytes, rate, start - event.start_ms)
            found.append(Bar(rank, "send", event.name, *times, row))
    return found


def _kind_and_name(event: Event) -> tuple[str, str]:
    if event.lane in AWAITS:
        return "bubble", f"{event.lane.removeprefix('await_')}: {event.name}"
    if event.lane == SHARED_WAIT:
        return "wait", event.name
    about = stages.piece(event.name)
    return "weights" if about and about.weights else event.lane, event.name


def _in_bucket(exchange: Event, buckets: list[Bar]) -> str:
    """The exchange's name after that of the bucket that it is for."""
    middle = (exchange.start_ms + exchange.end_ms) / 2
    inside = [bucket.name for bucket in buckets if bucket.start_ms <= middle < bucket.end_ms]
    return ", ".join([*inside[:1], exchange.name])


def _pack(spans: Sequence[Interval]) -> list[int]:
    """A row for each span, so that spans of a row do not overlap."""
    free: list[float] = []
    rows = []
    for start, end in spans:
        row = next((row for row, until in enumerate(free) if until <= start), len(free))
        free[row:] = [end, *free[row + 1 :]]
        rows.append(row)
    return rows


def label(bucket: Bar) -> str:
    """Size and rate of a bucket or message; with compression, what becomes of its size."""
    if not bucket.size:  # what is left of a bucket of the step before
        return ""
    compressed = 0 < bucket.sent < 0.9 * bucket.size
    size = units.size(bucket.size) + (f" → {units.size(bucket.sent)}" if compressed else "")
    return size if bucket.gbit_per_s is None else f"{size} · {units.rate(bucket.gbit_per_s)}"


def brief(bar: Bar) -> str:
    """F3, B3 or W3: the pass of a pipeline's micro-batch 3; of a message only its number. Empty for all else."""
    about = stages.message(bar.name) if bar.kind == "send" else stages.piece(bar.name)
    return "" if about is None else f"{LETTERS.get(bar.kind, '')}{about.microbatch}"


def what(bar: Bar) -> str:
    """What a bar is, in a line."""
    waits = {"data": "waits for data", "wait": f"waits for {bar.name or 'others'}", "bubble": f"waits for {bar.name}"}
    if bar.kind in LETTERS and bar.name:
        return f"{'forward' if bar.kind == 'forward' else 'backward'}: {bar.name}"
    name = waits.get(bar.kind) or bar.name or bar.kind
    return f"{name}: bytes move" if bar.kind == "moves" else name


def said(bar: Bar) -> str:
    """Everything about a bar in words, a line each for what it is, when it was, and what it moved."""
    lines = [what(bar)]
    lines.append(f"{bar.start_ms:.1f} to {bar.end_ms:.1f} ms, {units.milliseconds(bar.end_ms - bar.start_ms)}")
    if bar.size:
        lines.append(label(bar))
    elif bar.sent:
        lines.append(f"sends {units.size(bar.sent)}")
    if bar.queued_ms > 0:
        lines.append(f"queued behind others for {units.milliseconds(bar.queued_ms)} before")
    return "\n".join(lines)
