"""Runs that never were: evidence made of plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainer.overlap.evidence import Event, Evidence, Metrics, Window

MIB = 2**20
CONFIG = {
    "precision": "fp32",
    "batch": {"size": 64, "microbatches": 1},
    "parallel": {"data": {"size": -1, "bucket_cap_mb": 25, "find_unused_parameters": False}},
    "comm": {"_target_": "trainer.comm.allreduce.AllReduce"},
    "nccl": {"_target_": "trainer.nccl.auto.Auto", "env": {}},
    "data": {"workers": 2, "prefetch": 2},
    "profile": {"_target_": "trainer.profile.base.Profile"},
    "launch": {"threads": "auto"},
    "place": {"device": "cpu", "nodes": 1, "processes": 2},
}


def config(**changes: Any) -> dict[str, Any]:
    """CONFIG with options changed: `parallel__data__bucket_cap_mb=200`."""
    whole = {key: dict(value) if isinstance(value, dict) else value for key, value in CONFIG.items()}
    for path, value in changes.items():
        *groups, last = path.split("__")
        node: Any = whole
        for group in groups:
            node[group] = dict(node.get(group, {}))
            node = node[group]
        node[last] = value
    return whole


def sums(**changes: float) -> dict[str, float]:
    """What a rank measured a step, in ms and bytes: a step of 100 ms in which 60 ms of communication are hidden."""
    ms = {
        "step": 100, "forward": 30, "backward": 60, "optimizer": 10, "data": 0, "comm": 60, "exchange": 60,
        "exposed": 0, "tail": 0, "peers": 0,
    } | changes  # fmt: skip
    return {name: value if name == "bytes" else value / 1000 for name, value in ({"bytes": 1e6} | ms).items()}


def windows(*ranks: dict[str, float], count: int = 6, timeline: list[list[Event]] | None = None) -> list[Window]:
    """As many windows of ten steps, each the same."""
    return [Window(step=10 * number, steps=10, ranks=list(ranks), timeline=timeline) for number in range(1, count + 1)]


class Queue:
    """A step over a link: buckets that are ready at some time travel one by one."""

    def __init__(self, backward: tuple[float, float], start_ms: float, mb_per_s: float) -> None:
        self.backward, self.start_ms, self.per_byte = backward, start_ms, 1000 / (mb_per_s * 1e6)

    def events(
        self, buckets: list[tuple[float, float]], sent: float = 1.0, encode_ms: float = 0.0, starts: int = 0
    ) -> list[Event]:
        """(MiB, ready) -> what a rank records. With `starts` the hook has as many exchanges a bucket, behind encoding
        of `encode_ms` a MiB."""
        start, end = self.backward
        found, before = [Event("forward", "", 0.0, start, 0, 0), Event("backward", "", start, end, 0, 0)], 0.0
        for number, (mib, ready) in enumerate(buckets):
            size, moment = mib * MIB, max(before, ready) + encode_ms * mib
            for _ in range(starts):
                until = moment + self.start_ms + size * sent / starts * self.per_byte
                found.append(Event("exchange", "", moment, until, 0, size * sent / starts))
                moment = until
            before = moment if starts else moment + self.start_ms + size * sent * self.per_byte
            found.append(Event("comm", f"bucket {number}", ready, before, size, size * sent))
        return found

    def sums(self, events: list[Event], **changes: float) -> dict[str, float]:
        """What the rank measured of that step."""
        comm = [event for event in events if event.lane == "comm"]
        start, end = self.backward
        last = max(event.end_ms for event in comm)
        measured = {
            "forward": start, "backward": end - start, "optimizer": 10, "step": max(end, last) + 10,
            "comm": last - comm[0].start_ms, "exchange": last - comm[0].start_ms, "exposed": max(0.0, last - end),
            "tail": max(0.0, last - end), "bytes": sum(event.bytes for event in comm),
        }  # fmt: skip
        return sums(**(measured | changes))


def run(windows: list[Window], metrics: list[dict[str, Any]] | None = None, **kept: Any) -> Evidence:
    """Evidence of two ranks on one host, unless `hosts` names others."""
    ranks = max((len(window.ranks) for window in windows), default=2)
    found: dict[str, Any] = {"config": config(), "hosts": ["host0"] * ranks, "links_gbit": [None] * ranks} | kept
    lines = [Metrics.model_validate({"step": 10 * number} | values) for number, values in enumerate(metrics or [], 1)]
    return Evidence(Path("/runs/one"), metrics=lines, windows=windows, **found)


def over(
    queue: Queue, buckets: list[tuple[float, float]], changes: dict[str, float] | None = None, **kept: Any
) -> Evidence:
    """A run of two equal ranks whose every step sends `buckets` through `queue`; `hook` are arguments of its events."""
    events = queue.events(buckets, **kept.pop("hook", {}))
    one = queue.sums(events, **(changes or {}))
    return run(windows(one, one, timeline=[events, events]), **kept)
