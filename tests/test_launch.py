"""Real runs, as a user starts, disturbs and resumes them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from tests.processes import SMALL, TRAIN, alive_in_session, losses, only_run, read_until, run, started, workers_of


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The terminal's folder and what it showed of an undisturbed run."""
    folder = tmp_path_factory.mktemp("plain")
    code, output = run(folder, *SMALL, "log.every=1")
    assert code == 0, output
    return folder, output


def test_a_run_trains_and_leaves_its_folder(plain):
    terminal, output = plain
    folder = only_run(terminal)
    assert output.splitlines()[-1] == f"run folder: {folder.relative_to(terminal)}"
    kept = {"run.yaml", "logs", "checkpoints", "metrics.jsonl", "ranks.jsonl"}
    assert {entry.name for entry in folder.iterdir()} == kept
    assert {entry.name for entry in (folder / "logs").iterdir()} == {"rank0.log", "rank1.log"}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["eval/accuracy"] > 0.5
    for line in lines:
        wanted = {"overlap/comm_ms", "overlap/exposed_ms", "overlap/hidden_ratio", "overlap/tail_ms"}
        assert "train/loss" not in line or wanted <= set(line)


def test_torchrun_makes_one_folder_and_the_same_losses(plain, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    code, output = run(tmp_path, *SMALL, "log.every=1", command=torchrun)
    assert code == 0, output
    assert losses(only_run(tmp_path)) == losses(only_run(plain[0]))


def test_srun_variables_are_enough(tmp_path):
    """Two tasks of a Slurm step, as srun would start them, make one run."""
    command = [sys.executable, TRAIN, *SMALL]
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_JOB_ID": str(os.getpid())}
    tasks = [
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={
                **os.environ,
                **step,
                "SLURM_PROCID": str(task),
                "SLURM_LOCALID": str(task),
                "MASTER_ADDR": "localhost",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for task in range(2)
    ]
    outputs = [task.communicate(timeout=100)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], outputs
    assert "run folder:" in outputs[0]
    assert outputs[1] == ""
    only_run(tmp_path)


def test_a_sweep_makes_a_folder_a_job_and_goes_on_after_a_refused_one(tmp_path):
    code, output = run(tmp_path, "-m", *SMALL, "steps=4", "batch.size=64,63")
    assert code == 2
    assert "batch.size: 63 does not divide by 2 data ranks" in output
    (sweep,) = (tmp_path / "runs" / "smoke").iterdir()
    assert len(losses(sweep / "0")) == 1


def test_a_resumed_run_has_the_losses_of_an_undisturbed_one(tmp_path):
    deep = (*SMALL, "log.every=1", "parallel.data.bucket_cap_mb=0.05", "launch.processes=3", "batch.size=48")
    code, output = run(tmp_path, *deep, "folder=whole", "steps=20", "model.depth=4")
    assert code == 0, output
    code, output = run(
        tmp_path, *deep, "folder=rest", "steps=20", "model.depth=4", "checkpoint.resume=whole/checkpoints/step_00000010"
    )
    assert code == 0, output
    whole, rest = losses(tmp_path / "whole"), losses(tmp_path / "rest")
    assert list(rest) == list(range(11, 21))
    assert rest == {step: whole[step] for step in rest}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_a_checkpoint_and_leaves_no_process(tmp_path, number, code):
    with started(tmp_path, *SMALL, "steps=1000000", "checkpoint.every=1000000") as process:
        read_until(process, lambda line: line.startswith("step "))
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == code, output
        assert "Traceback" not in output
        assert not alive_in_session(process.pid)
    (checkpoint,) = (only_run(tmp_path) / "checkpoints").iterdir()
    last = list(losses(only_run(tmp_path)))[-1]
    assert checkpoint.name == f"step_{last:08d}"


def test_a_killed_worker_ends_the_others_and_is_named(tmp_path):
    with started(tmp_path, *SMALL, "steps=1000000") as process:
        read_until(process, lambda line: line.startswith("step "))
        began = time.monotonic()
        os.kill(workers_of(process.pid)[1], signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
        assert time.monotonic() - began < 10
        assert process.returncode == 1
        assert "rank 1 was killed by SIGKILL; the other ranks were ended; its log is" in output
        assert "Traceback" not in output
        assert not alive_in_session(process.pid)


def test_a_restart_goes_on_from_the_checkpoint_as_if_nothing_had_happened(tmp_path):
    arguments = (*SMALL, "steps=400", "log.every=1", "checkpoint.every=50", "evaluate.every=null")
    with started(tmp_path, *arguments, "folder=disturbed", "launch.max_restarts=1") as process:
        read_until(process, lambda line: line.startswith("step 120/"))
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output
    assert run(tmp_path, *arguments, "folder=whole")[0] == 0
    disturbed = losses(tmp_path / "disturbed")
    assert list(disturbed) == list(range(1, 401))
    assert disturbed == losses(tmp_path / "whole")


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    code, output = run(tmp_path, *SMALL, "optimizer.lr=1e30", "checkpoint.every=2")
    assert code == 1
    assert "train/loss: nan at step " in output
    assert "checkpoint" in output
    assert "try a lower optimizer.lr, clip.max_norm=1 or a longer schedule.warmup_steps" in output
    assert "Traceback" not in output


def test_a_workers_own_error_is_shown_once_with_its_traceback(tmp_path):
    (tmp_path / "broken.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(64, 10)\n"
        "    def forward(self, x):\n"
        "        raise ValueError('no luck')\n"
    )
    os.environ["PYTHONPATH"] = str(tmp_path)
    try:
        code, output = run(tmp_path, *SMALL, "model=custom", "model.factory=broken:Net")
    finally:
        del os.environ["PYTHONPATH"]
    assert code == 1
    assert output.count("Traceback") == 1
    assert "failed: ValueError: no luck; its log is" in output


def test_a_folder_with_another_runs_checkpoints_is_refused(plain, tmp_path):
    shutil.copytree(only_run(plain[0]), tmp_path / "here")
    code, output = run(tmp_path, *SMALL, "folder=here")
    assert (code, output.splitlines()[-1]) == (
        2,
        "folder: here holds the checkpoints of another run; choose a new one, or go on with it by"
        " checkpoint.resume=here",
    )
    code, output = run(tmp_path, *SMALL, "folder=here", "checkpoint.resume=here", "optimizer=adamw")
    assert code == 2
    assert "was saved with SGD, and the optimizer is AdamW, which cannot go on with its state" in output
    code, output = run(tmp_path, *SMALL, "folder=here", "checkpoint.resume=here", "steps=30")
    assert code == 0, output


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR2])
def test_an_image_folder_trains_with_loader_processes_and_stops_with_a_checkpoint(tmp_path, told):
    for part, name in itertools.product(("train", "val"), ("a", "b")):
        (tmp_path / "images" / part / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (12, 12), (10 * number, 20, 30)).save(tmp_path / "images" / part / name / f"{number}.png")
    data = ("data=image_folder", "data.root=images", "data.size=8", "data.workers=1", "batch.size=4")
    with started(tmp_path, *SMALL, *data, "steps=1000000", "evaluate.every=null") as process:
        read_until(process, lambda line: line.startswith("step "))
        # To every process, as a terminal does with Ctrl-C, and Slurm with all of its own.
        os.killpg(process.pid, told)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + told, output
        assert "Traceback" not in output
        assert not alive_in_session(process.pid)
    assert list((only_run(tmp_path) / "checkpoints").iterdir())
