"""The command, with a Slurm that only notes what it is told, or none."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainer.slurm.batch import TRAIN
from trainer.slurm.command_line import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login node: no GPUs, no Slurm unless a test brings one, and nothing of what a launcher may have set."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_RESTART_COUNT", "TRAINER_STARTED"):
        # Set first, so that what the command sets is taken back.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """A program that says it queued job 17; the file holds what it was told."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sbatch"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\necho 17\n')
    program.chmod(0o755)
    return tmp_path / "told"


def told(text: str) -> dict[str, str]:
    """The options that a file gives to sbatch."""
    lines = [line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH")]
    return {key: "".join(shlex.split(value)) for key, _, value in (line.partition("=") for line in lines)}


def test_the_file_asks_for_a_task_a_worker_and_runs_the_trainer_in_them(capsys, tmp_path):
    asked = ("--nodes", "2", "--gpus", "8", "--cpus", "6", "--mem", "64G", "--time", "1:00:00", "--partition", "big")
    more = ("--requeue", "--save", "300", "--sbatch", "constraint=h100&ib", "--sbatch", "exclusive")
    run = ("model=vit", "parallel=hybrid", "precision=fp16", "name=it")
    assert main([*asked, *more, "--setup", "module load cuda", "--print", "--", *run]) == 0
    text = capsys.readouterr().out
    options = told(text)
    (folder,) = {Path(options.pop("output")).parent}
    assert folder.parent == tmp_path / "runs" / "it"
    assert options == {
        "job-name": "it",
        "nodes": "2",
        "ntasks-per-node": "8",
        "gpus-per-node": "8",
        "cpus-per-task": "6",
        "mem": "64G",
        "time": "1:00:00",
        "partition": "big",
        "open-mode": "append",
        "signal": "TERM@300",
        "requeue": "",
        "constraint": "h100&ib",
        "exclusive": "",
    }
    lines = text.splitlines()
    step = "srun --export=ALL --kill-on-bad-exit=0 --wait=300 --cpus-per-task=6"
    at = lines.index(f"{step} {sys.executable} {TRAIN} {' '.join(run)}")
    assert lines[at - 5 : at - 2] == [
        f"cd {tmp_path} || exit 2",
        f"export TRAINER_STARTED={folder.name}",
        "module load cuda",
    ]
    assert '  scontrol requeue "$SLURM_JOB_ID" && exit 0 ;;' in lines[at:]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("save", "wait"), [("600", "600"), ("10", "60")])
def test_the_last_worker_has_as_long_to_end_as_it_has_to_save_or_a_minute(capsys, save, wait):
    assert main(["--processes", "2", "--save", save, "--print", "--", "model=mlp"]) == 0
    assert f" --wait={wait} " in capsys.readouterr().out


def test_what_means_something_to_a_shell_arrives_as_it_was_written(capsys, tmp_path):
    odd = ("name=a", r"folder='it\'s $HOME `x` {1,2} %j'")
    assert main(["--processes", "1", "--print", "--", *odd, "model=mlp"]) == 0
    text = capsys.readouterr().out
    assert told(text)["output"] == f"{tmp_path}/it's $HOME `x` {{1,2}} %%j/slurm-%j.out"
    (step,) = (line for line in text.splitlines() if line.startswith("srun"))
    assert shlex.split(step)[-4:] == [*odd, "model=mlp", "launch.processes=1"]
    checked = subprocess.run(["/bin/bash", "-n"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """`start(text, "step_1")` is a start of that job in the folder `it's`, whose run saves so and is then stopped."""
    (tmp_path / "bin").mkdir()
    for name, line in {"srun": 'mkdir -p "$SAVES"; exit 143', "scontrol": 'echo "$@"'}.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def run(text: str, saves: str = "") -> tuple[int, str]:
        environment = {
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "SLURM_JOB_ID": "17",
            "SAVES": str(tmp_path / "it's" / "checkpoints" / saves),
        }
        done = subprocess.run(["/bin/bash"], input=text, capture_output=True, text=True, env=environment)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_a_job_that_was_stopped_goes_back_into_the_queue_unless_it_gets_nowhere(capsys, start):
    assert main(["--processes", "2", "--requeue", "--print", "--", "model=mlp", r"folder='it\'s'"]) == 0
    text = capsys.readouterr().out
    queued = (0, "slurm: job 17 goes back into the queue, and goes on from its checkpoint\nrequeue 17\n")
    assert start(text, "step_00000003") == queued
    # It may be preempted before it has done a step, and half a checkpoint is none.
    assert start(text, "step_00000004.partial") == queued
    assert start(text, "step_00000004") == queued
    assert start(text) == queued
    given_up = "slurm: job 17 was stopped twice before it had saved anything new, and is not queued again\n"
    assert start(text) == (143, given_up)


def test_a_job_that_was_stopped_and_stays_out_of_the_queue_says_how_to_go_on(capsys, start):
    assert main(["--processes", "2", "--print", "--", "model=mlp", r"folder='it\'s'"]) == 0
    said = "slurm: job 17 has saved and left; to go on from there: checkpoint.resume=it's\n"
    assert start(capsys.readouterr().out) == (143, said)


def test_a_job_is_submitted_from_its_runs_folder(capsys, tmp_path, sbatch):
    assert main(["--processes", "2", "--", "model=mlp"]) == 0
    said = capsys.readouterr().out.splitlines()
    (folder,) = (tmp_path / "runs" / "digits").iterdir()
    assert said == [
        "job 17: 1 x 2 workers; scancel 17 ends it",
        f"sbatch file: runs/digits/{folder.name}/job.sbatch",
        f"output: runs/digits/{folder.name}/slurm-17.out",
        f"run folder: runs/digits/{folder.name}",
    ]
    assert sbatch.read_text() == f"--parsable runs/digits/{folder.name}/job.sbatch\n"
    assert "--no-requeue" in (folder / "job.sbatch").read_text()


def test_without_slurm_the_file_is_printed(capsys, tmp_path):
    assert main(["--processes", "2", "--", "model=mlp"]) == 3
    said = capsys.readouterr()
    assert told(said.out)["ntasks-per-node"] == "2"
    folder = Path(told(said.out)["output"]).parent
    assert said.err == (
        "sbatch: there is no Slurm on this machine; this is the file that would have been submitted\n"
        f"output: Slurm makes no folder for what the job says; before the file is submitted: mkdir -p {folder}\n"
    )
    assert not (tmp_path / "runs").exists()


def test_who_has_the_file_printed_is_told_to_make_the_folder_that_slurm_will_not(capsys, tmp_path):
    assert main(["--processes", "2", "--print", "--", "model=mlp", "folder='a b'"]) == 0
    assert capsys.readouterr().err.endswith(f"mkdir -p '{tmp_path}/a b'\n")


def test_what_slurm_refuses_is_said_in_its_words(capsys, tmp_path, sbatch):
    (tmp_path / "bin" / "sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: invalid partition specified: p' >&2\nexit 1\n"
    )
    assert main(["--processes", "2", "--partition", "p", "--", "model=mlp", "folder=here"]) == 2
    assert capsys.readouterr().err == "sbatch: invalid partition specified: p; the file is here/job.sbatch\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--processes 2 -- optimizer.lrr=1", "optimizer.lrr: unknown option; did you mean 'optimizer.lr'?"),
        ("--processes 2 -- model=mlpp", "model: there is no model 'mlpp'; did you mean 'mlp'?"),
        (
            "--nodes 3 --processes 2 --",
            "batch.size: 64 does not divide by 6 data ranks x 1 micro-batches; use 60 or 66",
        ),
        (
            "--processes 2 -- precision=fp16",
            "precision: fp16 has no fast products on a CPU; use precision=bf16 or precision=fp32",
        ),
        (
            "--nodes 2 -- model=mlp",
            "--gpus or --processes: neither of them is given; say --gpus 8, or on CPUs --processes 4",
        ),
        (
            "--gpus 2 --processes 2 --",
            "--gpus or --processes: both are given; say --gpus 8, or on CPUs --processes 4",
        ),
        (
            "--gpus 2 --time 1:77 --",
            "--time: '1:77' is not allowed: write 90 for minutes, 1:30:00 for hours, or 2-12:00:00 with days; time is"
            " the longest that the job may run",
        ),
        (
            "--gpus 2 --time 3 --",
            "--time: 3 is 180 s, and Slurm may tell the run to leave 180 s before its end, --save=120 and up to 60 s"
            " early; set a longer --time or a shorter --save",
        ),
        (
            "--gpus 2 --time 0-1:05 --save 3840 --",
            "--time: 0-1:05 is 3900 s, and Slurm may tell the run to leave 3900 s before its end, --save=3840 and up to"
            " 60 s early; set a longer --time or a shorter --save",
        ),
        (
            "--gpus 2 --mem 64GB --",
            "--mem: '64GB' is not allowed: write a whole number and a unit, as in 64G; mem is the memory of each node",
        ),
        (
            "--gpus 2 --sbatch nodes=3 --",
            "--sbatch.0: 'nodes=3' is not allowed: the file says that itself; scripts/slurm --help tells how",
        ),
        (
            "--gpus 0 --",
            "--gpus: 0 is not allowed: input should be greater than or equal to 1; gpus is the number of GPUs on each"
            " node, and of workers; one of gpus and processes is given",
        ),
        (
            "--processes 2 -- -m",
            "-m: a sweep is a job a run; use python train.py -m hydra/launcher=submitit_slurm, without scripts/slurm",
        ),
        ("--processes 2 -- --cfg", "--cfg: train.py takes options of the run here; write option=value"),
        (
            "--processes 2 -- dry_run=true",
            "dry_run: the job would end at once; leave it out, scripts/slurm checks the run anyway",
        ),
        (
            "--processes 2 -- launch.nodes=4",
            "launch.nodes: 4 is not what Slurm is asked for, which is 1; leave it out",
        ),
        (
            "--processes 2 -- launch.max_restarts=1",
            "launch.max_restarts: 1 is for workers that train.py starts, and here Slurm does; use --requeue",
        ),
        (
            "--processes 2 --requeue -- checkpoint.every=null",
            "--requeue: checkpoint.every=null keeps nothing to go on from; set checkpoint.every to a number of steps",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_and_no_job_is_queued(capsys, tmp_path, sbatch, words, error):
    assert main(words.split()) == 2
    assert capsys.readouterr().err == error + "\n"
    assert not sbatch.exists()
    assert not (tmp_path / "runs").exists()


def test_a_folder_with_another_runs_checkpoints_is_refused_before_a_job_is_queued(capsys, tmp_path, sbatch):
    (tmp_path / "here" / "checkpoints" / "step_00000010").mkdir(parents=True)
    assert main(["--processes", "2", "--", "folder=here"]) == 2
    assert "folder: here holds the checkpoints of another run; choose a new one" in capsys.readouterr().err
    assert not sbatch.exists()


@pytest.mark.parametrize("time", ["4", "0", "90:30", "1:30:00", "2-12", "2-12:30", "2-12:30:15", "UNLIMITED"])
def test_every_form_of_a_time_that_slurm_knows_is_taken(capsys, time):
    assert main(["--processes", "2", "--time", time, "--print", "--", "model=mlp"]) == 0
    assert told(capsys.readouterr().out)["time"] == time
