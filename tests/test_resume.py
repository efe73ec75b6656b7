"""Which checkpoint a run starts from when it, or only a part of it, was started again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from trainer.checkpoint import Checkpoints
from trainer.mesh import Mesh
from trainer.resume import to_start_from
from trainer.run import Run
from trainer.spec import ConfigError


def _save(mesh: Mesh, run: Run, steps: tuple[int, ...]) -> None:
    model = run.model.build(run.data.sample())
    disabled = torch.amp.GradScaler("cpu", enabled=False)
    checkpoints = Checkpoints(run.checkpoints, 2, mesh, model, run.optimizer.build(model), disabled, {})
    for step in steps:
        checkpoints.save(step)
    checkpoints.close()


def _start(mesh: Mesh, run: Run, restarts: tuple[int, ...], asked: tuple[str | None, ...]) -> Path | None:
    """Each rank as its agent started it."""
    os.environ["TORCHELASTIC_RESTART_COUNT"] = str(restarts[mesh.rank])
    checkpoint = run.checkpoint.model_copy(update={"resume": asked[mesh.rank]})
    return to_start_from(run.model_copy(update={"checkpoint": checkpoint}), mesh.control)


@pytest.fixture
def saved(workers, make_run) -> Run:
    """A run with two checkpoints in its folder."""
    run = make_run("model=mlp")
    workers(1, _save, run, (4, 5))
    return run


@pytest.mark.parametrize("restarts", [(0, 1), (1, 0)])
def test_after_a_failure_that_one_agent_saw_all_ranks_start_from_the_newest(workers, saved, restarts):
    assert workers(2, _start, saved, restarts, (None, None)) == [saved.checkpoints / "step_00000005"] * 2


def test_a_host_that_came_back_and_found_a_checkpoint_has_the_others_start_from_the_newest(workers, saved):
    """Its agent counts no restart, and theirs none either: it is new to them."""
    asked = (None, str(saved.checkpoints / "step_00000005"))
    assert workers(2, _start, saved, (0, 0), asked) == [saved.checkpoints / "step_00000005"] * 2


def test_what_all_were_asked_for_holds_until_something_was_started_again(workers, saved):
    asked = str(saved.checkpoints / "step_00000004")
    assert workers(2, _start, saved, (0, 0), (asked, asked)) == [Path(asked)] * 2
    assert workers(2, _start, saved, (0, 0), (None, None)) == [None, None]


def test_a_restart_before_the_first_checkpoint_starts_as_it_was_asked_to(workers, saved, make_run):
    asked, empty = str(saved.checkpoints / "step_00000004"), make_run("model=mlp")
    empty = empty.model_copy(update={"folder": empty.folder / "none"})
    assert workers(2, _start, empty, (0, 1), (asked, asked)) == [Path(asked)] * 2
    assert workers(2, _start, empty, (0, 1), (None, None)) == [None, None]


def test_a_job_that_slurm_starts_again_does_not_need_the_checkpoint_it_once_began_with(saved, make_run, monkeypatch):
    with pytest.raises(ConfigError, match="there is no /gone"):
        make_run("model=mlp", "checkpoint.resume=/gone")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    again = make_run("model=mlp", "checkpoint.resume=/gone")
    assert again.checkpoint.resume == str(saved.checkpoints / "step_00000005")
    with pytest.raises(ConfigError, match="holds another model"):
        make_run("model=mlp", "model.width=3", "checkpoint.resume=/gone")
    for checkpoint in saved.checkpoints.iterdir():
        (checkpoint / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="there is no /gone"):
        make_run("model=mlp", "checkpoint.resume=/gone")
