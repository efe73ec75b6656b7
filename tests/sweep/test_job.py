"""One run of a sweep, to its result."""

from __future__ import annotations

import signal

import pytest

from tests.sweep.scene import write_metrics
from trainer.errors import Diverged
from trainer.launch import Stopped, WorkerFailed
from trainer.spec import ConfigError
from trainer.sweep import job
from trainer.sweep.options import Sweep
from trainer.sweep.result import keep, read


def begin(folder, start=lambda run: None, prepare=lambda resume: None, overrides=("comm=fp16",)):
    said = []
    value = job.run(folder, overrides, Sweep(), prepare, start, lambda code, reason: said.append((code, reason)))
    return value, said


def test_a_run_that_is_done_has_its_value_and_its_result(tmp_path):
    def start(run):
        assert read(tmp_path).status == "running"
        write_metrics(tmp_path, {"step": 1, "speed/samples_per_s": 8.0})

    assert begin(tmp_path, start) == (8.0, [])
    assert read(tmp_path).status == "done"
    assert read(tmp_path).overrides == ["comm=fp16"]
    assert read(tmp_path).metrics == {"speed/samples_per_s": 8.0}


@pytest.mark.parametrize("error", [ConfigError("data: gone"), WorkerFailed("rank 1 failed"), Diverged("nan at 3")])
def test_what_ends_a_single_run_is_the_reason(tmp_path, error):
    def fail(run):
        raise error

    assert begin(tmp_path, fail) == (None, [(1, str(error))])
    assert (read(tmp_path).status, read(tmp_path).reason) == ("failed", str(error))


def test_a_run_that_cannot_be_is_refused_and_not_started(tmp_path):
    def refuse(resume):
        raise ConfigError("comm: not with this")

    assert begin(tmp_path, lambda run: pytest.fail("started"), refuse) == (None, [(2, "comm: not with this")])
    assert (read(tmp_path).status, read(tmp_path).reason) == ("refused", "comm: not with this")


def test_a_signal_ends_the_sweep_and_leaves_a_result(tmp_path):
    def stop(run):
        write_metrics(tmp_path, {"step": 1, "speed/samples_per_s": 8.0})
        raise Stopped(signal.SIGTERM)

    with pytest.raises(Stopped):
        begin(tmp_path, stop)
    result = read(tmp_path)
    assert (result.status, result.reason, result.value) == ("stopped", "stopped by SIGTERM", None)


def test_processes_that_are_out_of_step_end_the_sweep(tmp_path, monkeypatch):
    def fail(run):
        raise WorkerFailed("rank 1 failed")

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit):
        begin(tmp_path, fail)
    assert read(tmp_path).status == "failed"


def test_a_run_that_began_goes_on_from_its_checkpoint_and_its_seconds_add_up(tmp_path, monkeypatch):
    whole = tmp_path / "checkpoints" / "step_00000010"
    monkeypatch.setattr("trainer.checkpoint_folder.newest_whole", lambda candidates: (whole, []))
    seen = []
    begin(tmp_path, prepare=seen.append)
    keep(tmp_path, read(tmp_path).model_copy(update={"seconds": 100.0, "status": "running"}))
    begin(tmp_path, prepare=seen.append)
    assert read(tmp_path).seconds > 100
    begin(tmp_path, prepare=seen.append, overrides=("comm=topk",))
    assert seen == [None, whole, None]
    assert read(tmp_path).seconds < 100


def test_half_a_checkpoint_is_removed_and_the_run_starts_afresh(tmp_path):
    begin(tmp_path)
    (tmp_path / "checkpoints" / "step_00000010.partial").mkdir(parents=True)
    seen = []
    begin(tmp_path, prepare=seen.append)
    assert seen == [None]
    assert not (tmp_path / "checkpoints").exists()
