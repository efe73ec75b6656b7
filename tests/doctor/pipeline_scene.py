"""Runs of pipelines that never were: what a simulation says that ranks did, as they would have recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.doctor.scene import config, run, sums
from trainer.overlap.evidence import Event, Evidence, Window
from trainer.pipeline.schedules import SCHEDULES
from trainer.pipeline.simulate import Costs, simulate

# The optimizer's step and all else between the passes of two steps.
REST_MS = 5.0


def equal(stages: int, ms: float = 3.0, hop: float = 0.0) -> Costs:
    """Stages that need `ms` for a forward and a backward pass, and `hop` ms for each message."""
    return Costs([ms / 3] * stages, [ms / 3] * stages, [ms / 3] * stages, [hop] * (stages - 1))


def timeline(schedule: str, size: int, microbatches: int, work: Costs, replicas: int = 1) -> list[list[Event]]:
    """All ranks of as many pipelines, those of the first stages first."""
    forecast = simulate(SCHEDULES[schedule](size, len(work.forward) // size, microbatches), work)
    found = []
    for rank, rank_slots in enumerate(forecast.slots):
        # A rank that is done earlier begins the next step earlier, and waits there for its first activations.
        events, until = [], (rank_slots[-1].end - forecast.duration if rank else 0.0)
        free = {"send_onward": 0.0, "send_back": 0.0}
        for (kind, stage, m), start, end in rank_slots:
            name = f"stage {stage}, micro-batch {m}"
            if start > until:
                lane = "await_activations" if kind == "F" else "await_gradients"
                events.append(Event(lane, name, until, start, 0, 0))
            named = f"weights of {name}" if kind == "W" else name
            events.append(Event("forward" if kind == "F" else "backward", named, start, end, 0, 0))
            until = end
            onward = kind == "F"
            to = stage + 1 if onward else stage - 1
            if kind != "W" and 0 <= to < len(work.forward):
                lane, what = ("send_onward", "activations") if onward else ("send_back", "gradients")
                free[lane] = max(end, free[lane]) + work.hop[min(stage, to)]
                events.append(Event(lane, f"{what} of micro-batch {m} to stage {to}", end, free[lane], 1e6, 1e6))
        found += [events] * replicas
    return found


def measured(events: Sequence[Event], step_ms: float, **changes: float) -> dict[str, float]:
    """What a rank that did this measured, which reduces nothing."""

    def total(lane: str) -> float:
        return sum(event.end_ms - event.start_ms for event in events if event.lane == lane)

    lanes = {lane: total(lane) for lane in ("forward", "backward", "await_activations", "await_gradients")}
    nothing = dict.fromkeys(("comm", "exchange", "exposed", "tail", "peers", "bytes"), 0.0)
    return sums(**(nothing | {"step": step_ms, "optimizer": REST_MS} | lanes | changes))


def pipeline(
    followed: str, size: int, microbatches: int, work: Costs, replicas: int = 1, count: int = 6, **options: Any
) -> Evidence:
    """A run of windows that are all alike, which followed a schedule; `options` are those of the pipeline."""
    recorded = timeline(followed, size, microbatches, work, replicas)
    step_ms = max(event.end_ms for events in recorded for event in events) + REST_MS
    ranks = [measured(events, step_ms) for events in recorded]
    windows = [Window(step=10 * n, steps=10, ranks=ranks, timeline=recorded) for n in range(1, count + 1)]
    axis = {"size": size, "schedule": followed, "microbatches": "auto", "stages": None, "split": "auto"} | options
    return run(windows, config=config(parallel__pipeline=axis, place__processes=len(ranks)))


def changed(evidence: Evidence, ranks: dict[int, dict[str, float]]) -> Evidence:
    """The same with some of what ranks measured changed, in ms and bytes."""
    windows = []
    for window in evidence.windows:
        found = [
            one | {name: value if name == "bytes" else value / 1000 for name, value in ranks.get(rank, {}).items()}
            for rank, one in enumerate(window.ranks)
        ]
        windows.append(window.model_copy(update={"ranks": found}))
    return evidence._replace(windows=windows)


def staged(*parts: Evidence) -> Evidence:
    """Runs of replicas, window by window, as the stages of one pipeline."""
    windows = []
    for together in zip(*(part.windows for part in parts), strict=True):
        named = [
            [
                event._replace(name=f"stage {stage}, micro-batch 0") if event.lane in ("forward", "backward") else event
                for event in events
            ]
            for stage, window in enumerate(together)
            for events in window.timeline or []
        ]
        ranks = [sums for window in together for sums in window.ranks]
        windows.append(together[0].model_copy(update={"ranks": ranks, "timeline": named}))
    options = config(parallel__pipeline={"size": len(parts)}, place__processes=len(windows[0].ranks))
    hosts = [host for part in parts for host in part.hosts]
    return parts[0]._replace(windows=windows, config=options, hosts=hosts)
