"""The meter's lanes as tracks of a trace in Chrome's format, which ui.perfetto.dev opens."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trainer.overlap.kernels import Anchor, Event
from trainer.overlap.meter import AWAITS, COMPUTE, SENDS, PastStep

# Every lane's track, in the order in which they are shown.
TRACKS = {
    "step": "steps",
    **dict.fromkeys(COMPUTE, "compute"),
    "comm": "communication",
    "exchange": "exchanges",
    "wait": "waits",
    **dict.fromkeys(AWAITS, "waits"),
    **dict.fromkeys(SENDS, "sends"),
    "data": "data",
}
# No process has an id this high, so the tracks stand by themselves.
FIRST_PID = 2**22 + 1


class _Bar(NamedTuple):
    track: str
    start_ns: int
    end_ns: int
    name: str
    args: dict[str, float]


def lanes(steps: Mapping[int, PastStep], anchor: Anchor, rank: int) -> Iterator[Event]:
    """The spans of `steps` as events on named tracks of a process of their own.

    What overlaps on one track is not drawn, and buckets do: a track gets as many rows as it has bars at the same time.
    """
    pid, tid = FIRST_PID + rank, 0
    yield from _name("process", f"overlap-trainer, rank {rank}", -1, pid, tid)
    bars = sorted(bar for number, past in steps.items() for bar in _bars(number, past, anchor))
    for track in dict.fromkeys(TRACKS.values()):
        rows: list[int] = []  # the end of each row's last bar
        for bar in (bar for bar in bars if bar.track == track):
            row = next((row for row, end in enumerate(rows) if end <= bar.start_ns), len(rows))
            rows[row : row + 1] = [bar.end_ns]
            yield {
                "ph": "X",
                "cat": "overlap",
                "name": bar.name,
                "pid": pid,
                "tid": tid + row + 1,
                "ts": bar.start_ns / 1000,
                "dur": (bar.end_ns - bar.start_ns) / 1000,
                "args": bar.args,
            }
        for row in range(len(rows)):
            tid += 1
            yield from _name("thread", f"{track} ({row + 1})" if row else track, tid, pid, tid)


def write(path: Path, trace: dict[str, Any]) -> None:
    """Write `trace`, compressed; a file under this name is whole."""
    unfinished = path.with_name(path.name + ".unfinished")
    # Into a string first: json.dump would make it piece by piece, in Python, in many times the time.
    unfinished.write_bytes(gzip.compress(json.dumps(trace).encode(), compresslevel=3))
    os.replace(unfinished, path)


def _bars(number: int, past: PastStep, anchor: Anchor) -> Iterator[_Bar]:
    def bar(lane: str, name: str, start: float, end: float, **args: float) -> _Bar:
        # Whole nanoseconds, so that what touches does not come to overlap by rounding.
        start_ns, end_ns = (round(anchor.microseconds(past.moment + seconds) * 1000) for seconds in (start, end))
        return _Bar(TRACKS[lane], start_ns, end_ns, name, args)

    yield bar("step", f"step {number}", 0.0, past.sums["step"])
    for span in past.spans:
        volume = {"bucket_bytes": span.size, "sent_bytes": span.bytes}
        volume = {name: value for name, value in volume.items() if value}
        yield bar(span.lane, span.name or span.lane, span.start, span.end, step=number, **volume)


def _name(what: str, name: str, place: int, pid: int, tid: int) -> Iterator[Event]:
    """Name a process or thread and say where it is shown."""
    for kind, args in (("name", {"name": name}), ("sort_index", {"sort_index": place})):
        yield {"ph": "M", "name": f"{what}_{kind}", "pid": pid, "tid": tid, "args": args}
