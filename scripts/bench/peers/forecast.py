"""No way to train: what `parallel.pipeline.schedule=auto` predicts of the schedules, before any variant is built."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.bench.harness import Bare
from scripts.bench.task import Task
from trainer.overlap.clock import clock_for
from trainer.overlap.meter import Meter
from trainer.pipeline.build import build as build_pipeline
from trainer.tensor.share import Shared


def build(task: Task, path: str) -> Bare:
    """A stepper that does nothing; seconds a step by schedule are in `path`, as JSON, when it is there."""
    run, mesh = task.run, task.mesh
    shared = Shared({}, run.model.loss, lambda output: output)
    pipeline = build_pipeline(run, mesh, task.model(), shared, task.device, Meter(clock_for(task.device)), ())
    if mesh.rank == 0:
        Path(path).write_text(json.dumps(pipeline.predicted))
    return Bare(lambda: None)
