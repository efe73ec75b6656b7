"""What a profile saw of one rank: when its kernels, or on a CPU its operators, communicated and computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from trainer.overlap.interval import Interval, union

Event = dict[str, Any]
"""an entry of `traceEvents` in Chrome's trace format; times in µs"""

# Autograd's span around the hooks of a gradient, where a communication hook may also wait. Operators within count.
MESSAGES = ("gloo:send", "gloo:recv")
HOOKS = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
ENGINE = "autograd::engine::"


class Anchor(NamedTuple):
    """The training thread at a moment that is known in both clocks."""

    thread: Any
    ts: float
    """µs in the trace"""
    moment: float
    """seconds of the host's monotonic clock"""

    def seconds(self, ts: float) -> float:
        return self.moment + (ts - self.ts) / 1e6

    def microseconds(self, moment: float) -> float:
        return self.ts + (moment - self.moment) * 1e6


class Work(NamedTuple):
    """Intervals in seconds of the host's monotonic clock."""

    comm: list[Interval]
    """each collective by itself, so that it can be told to which step it belongs"""
    compute: list[Interval]
    copies: list[Interval]
    """of a GPU's memory; on a CPU to copy is to compute"""


def find_anchor(events: Iterable[Event], name: str, moment: float) -> Anchor:
    """The span called `name`, in whose body the host's clock was at `moment`."""
    for event in events:
        if event.get("ph") == "X" and event["name"] == name:
            return Anchor(event["tid"], event["ts"] + event["dur"] / 2, moment)
    raise RuntimeError(f"the profiler recorded no span {name!r}, so its clock is not known")


def on_gpu(events: Iterable[Event], anchor: Anchor) -> Work:
    """Kernels of NCCL against all other kernels. Copies and fills are neither, nor is what stages send each other."""
    spans = [(event, interval) for event, interval in _spans(events, anchor) if not _of_pipeline(event)]
    kernels = [(event["name"].startswith("nccl"), interval) for event, interval in spans if event["cat"] == "kernel"]
    return Work(
        comm=[interval for is_nccl, interval in kernels if is_nccl],
        compute=union(interval for is_nccl, interval in kernels if not is_nccl),
        copies=union(interval for event, interval in spans if event["cat"] in ("gpu_memcpy", "gpu_memset")),
    )


def on_cpu(events: Iterable[Event], anchor: Anchor) -> Work:
    """Gloo's collectives against operators on the training thread and on autograd's own.

    A span `gloo:…` lasts from the collective's submission to its arrival. What a courier's thread computes is no part
    of the step's own computing. Between operators nothing computes: there the thread runs Python, or waits.
    """
    spans = list(_spans(events, anchor))
    threads = {anchor.thread} | {event["tid"] for event, _ in spans if event["name"].startswith(ENGINE)}
    operators = (
        interval
        for event, interval in spans
        if event["cat"] == "cpu_op" and event["tid"] in threads and event["name"] != HOOKS
    )
    return Work(
        # The training thread sends to other stages; a courier, whose hook may send as well, has a thread of its own.
        comm=[
            interval
            for event, interval in spans
            if event["name"].startswith("gloo:") and not (event["name"] in MESSAGES and event["tid"] in threads)
        ],
        compute=union(operators),
        copies=[],
    )


def _of_pipeline(event: Event) -> bool:
    """Whether it is a message between stages: a kernel of theirs may have any name, but their groups say what for."""
    return str(event.get("args", {}).get("Process Group Description", "")).startswith("pipeline")


def _spans(events: Iterable[Event], anchor: Anchor) -> Iterable[tuple[Event, Interval]]:
    for event in events:
        if event.get("ph") == "X" and "cat" in event:
            start = anchor.seconds(event["ts"])
            yield event, (start, start + event["dur"] / 1e6)
