"""What goes wrong in a pipeline is told with its rank and stage, and soon."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL
from tests.processes import SMALL as REAL
from tests.processes import losses, read_until, run, started, workers_of

# Ranks that wait for a dead neighbour learn of it from its closed sockets, not from a timeout.
SOON_S = 10.0


class Greedy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise torch.OutOfMemoryError("tried to allocate 3 GiB\nand a stack trace")
        return super().forward(x)


def greedy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), Greedy(64, 8), nn.Linear(8, 8), nn.Linear(8, 10))


def test_a_stage_without_room_says_which_it_is_and_what_to_do(workers, make_run):
    run = make_run(
        *SMALL,
        "model=custom",
        "model.factory=tests.pipeline.test_failures:greedy",
        "parallel=pipeline",
        "parallel.data.size=1",
        "parallel.pipeline.split=['3']",
    )
    with pytest.raises(RuntimeError) as failed:
        workers(2, scenario.train, [run])
    assert (
        "PipelineError: pipeline: rank 0 of the pipeline, F0 of stage 0: out of memory; move layers to other stages"
        " with parallel.pipeline.split, use parallel.activation_checkpointing=full, or a schedule that holds fewer"
        " micro-batches (tried to allocate 3 GiB)"
    ) in str(failed.value)


def test_a_killed_rank_ends_the_others_soon_and_is_named_with_its_stage(tmp_path: Path):
    options = ("parallel=pipeline", "model=replay", "model.table=eight_layers", "data=synthetic", "batch.size=16")
    with started(tmp_path, *REAL, *options, "steps=1000", "log.every=1") as process:
        read_until(process, lambda line: "step 3/" in line)
        os.kill(workers_of(process.pid)[2], signal.SIGKILL)
        killed = time.monotonic()
        rest = process.stdout.read()
        assert process.wait() == 1
        assert time.monotonic() - killed < SOON_S
    assert "rank 2, number 1 of its pipeline, was killed by SIGKILL; the other ranks were ended" in rest


def test_a_killed_pipeline_goes_on_from_its_checkpoint_as_if_nothing_had_been(tmp_path: Path):
    options = (
        "parallel=pipeline",
        "parallel.data.size=1",
        "model=vit",
        "model.depth=2",
        "model.dropout=0.1",
        # Dropout draws from a stream a stage.
        "parallel.pipeline.split=[layers.1]",
        "steps=12",
        "log.every=1",
        "checkpoint.every=4",
    )
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    code, output = run(tmp_path, *REAL, *options, f"folder={undisturbed}")
    assert code == 0, output
    with started(tmp_path, *REAL, *options, f"folder={disturbed}", "launch.max_restarts=1") as process:
        read_until(process, lambda line: "step 6/" in line)
        os.kill(workers_of(process.pid)[1], signal.SIGKILL)
        process.stdout.read()
        assert process.wait() == 0
    assert losses(disturbed) == losses(undisturbed)
