"""Runs that never were, for the report: evidence made of plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainer.overlap.evidence import Event, Evidence, Metrics, Window

HOSTILE = "<script>alert('x')</script>&\"'"


def step(ahead: float = 0.0, slower: float = 0.0) -> list[Event]:
    """A rank's step: two buckets of 20 and 5 MB beside the backward pass, the second of them 10 ms too late."""
    return [
        Event(lane, name, start + ahead, end + ahead, size, sent)
        for lane, name, start, end, size, sent in (
            ("data", "", 0.0, 2.0, 0.0, 0.0),
            ("forward", "", 2.0, 20.0, 0.0, 0.0),
            ("wait", "gradients", 60.0 + slower, 70.0, 0.0, 0.0),
            ("backward", "", 20.0, 60.0 + slower, 0.0, 0.0),
            ("comm", "bucket 0", 30.0 + slower, 50.0, 20e6, 20e6),
            ("comm", "bucket 1", 55.0 + slower, 70.0, 5e6, 5e6),
            ("optimizer", "", 70.0, 80.0, 0.0, 0.0),
        )
    ]


def window(at: int, ranks: int, timeline: bool) -> Window:
    sums = {
        "step": 0.082,
        "data": 0.002,
        "forward": 0.018,
        "backward": 0.040,
        "optimizer": 0.010,
        "comm": 0.035,
        "exposed": 0.010,
        "peers": 0.003,
        "bytes": 25e6,
    }
    everyone = [sums | {"forward": 0.018 + 0.001 * rank} for rank in range(ranks)]
    spans = [step(slower=0.05 * rank) for rank in range(ranks)]
    return Window(step=at, steps=10, ranks=everyone, timeline=spans if timeline else None)


def line(at: int, **values: Any) -> Metrics:
    usual = {
        "speed/step_ms": 82.0,
        "speed/data_wait_ms": 2.0,
        "speed/forward_ms": 18.0,
        "speed/backward_ms": 40.0,
        "speed/optimizer_ms": 10.0,
        "overlap/comm_ms": 35.0,
        "overlap/exposed_ms": 10.0,
        "overlap/exposed_ms/worst": 12.0,
        "overlap/hidden_ratio": 1 - 10 / 35,
        "overlap/exposed_share": 10 / 82,
        "comm/bytes_sent": 25e6,
        "comm/compression_ratio": 1.0,
        "train/loss": 2.0 / at,
    }
    return Metrics(step=at, **(usual | values))


def run(folder: Path = Path("runs/made/up"), steps: int = 50, ranks: int = 2, **parts: Any) -> Evidence:
    """A whole run with a line of metrics every ten steps."""
    logged = range(10, steps + 1, 10)
    whole = {
        "config": {"name": "made up", "steps": steps, "comm": {"_target_": "trainer.comm.allreduce.AllReduce"}},
        "metrics": [*(line(at) for at in logged), Metrics(step=steps, **{"eval/loss": 0.1, "eval/accuracy": 0.98})],
        "hosts": ["a"] * ranks,
        "windows": [window(at, ranks, timeline=at % 20 == 0) for at in logged],
    }
    return Evidence(folder, **(whole | parts))


def pipeline(messages: float = 1.0) -> list[list[Event]]:
    """Two stages with a replica each and two micro-batches, one bucket; `messages` is the MB of one between stages."""
    timeline = []
    for rank in range(4):
        stage, late = divmod(rank, 2)
        spans = [
            ("data", "", 0, 2),
            *([("await_activations", "stage 1, micro-batch 0", 2, 12)] if stage else []),
            *(
                (lane, f"stage {stage}, micro-batch {m}", start + 10 * stage + 30 * m, end + 10 * stage + 30 * m)
                for m in range(2)
                for lane, start, end in (("forward", 2, 10), ("backward", 15, 30))
            ),
            *([] if stage else [("await_gradients", "stage 0, micro-batch 0", 10, 15)]),
        ]
        events = [Event(lane, name, float(start), float(end), 0.0, 0.0) for lane, name, start, end in spans]
        lane, what = ("send_back", "gradients") if stage else ("send_onward", "activations")
        for m in range(2):
            start, size = 11.0 + 10 * stage + m, messages * 1e6
            name = f"{what} of micro-batch {m} to stage {1 - stage}"
            events.append(Event(lane, name, start, 13.0 + 10 * stage + 3 * m, size, size))
        # The second stage has two buckets, and its second rank comes to both 2 ms late.
        for number in range(1 + stage):
            start = 60.0 + 10 * stage + number + 2 * late
            events.append(Event("comm", f"bucket {number}", start, 75.0 + 10 * stage + number, 5e6, 5e6))
        timeline.append(events)
    return timeline


def pipeline_window(at: int) -> Window:
    first = {"step": 0.1, "forward": 0.016, "backward": 0.03, "await_activations": 0.0, "await_gradients": 0.005}
    last = first | {"await_activations": 0.01, "await_gradients": 0.0}
    sums = [stage | {"bytes": 5e6, "stage_bytes": 2e6, "peers": 0.0} for stage in (first, first, last, last)]
    return Window(step=at, steps=10, ranks=sums, timeline=pipeline())


def pipeline_run(**parts: Any) -> Evidence:
    waits = {"overlap/bubble_share": 0.075, "overlap/wait_activations_ms": 5.0, "overlap/wait_gradients_ms": 2.5}
    metrics = [line(at, **waits, **{"pipeline/bytes_sent": 2e6}) for at in (10, 20)]
    return run(**({"windows": [pipeline_window(10), pipeline_window(20)], "metrics": metrics, "steps": 20} | parts))
