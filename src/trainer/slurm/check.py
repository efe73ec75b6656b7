"""Whether a run can be at the place that a job will have, asked before the job is submitted."""

from __future__ import annotations

from collections.abc import Sequence

from trainer import config
from trainer.launch import refuse_foreign_folder
from trainer.nccl.command_line import as_text
from trainer.preset.compose import composed
from trainer.run import Run
from trainer.slurm.request import Request
from trainer.spec import ConfigError


def check(request: Request, overrides: Sequence[str]) -> Run:
    """The run as the job will have it, but for what only its nodes know. Raises ConfigError or what Hydra raises."""
    for word in overrides:
        if word in ("-m", "--multirun"):
            raise ConfigError(
                f"{word}: a sweep is a job a run; use python train.py -m hydra/launcher=submitit_slurm, without"
                " scripts/slurm"
            )
        if word.startswith("-"):
            raise ConfigError(f"{word}: train.py takes options of the run here; write option=value")
    cfg = composed(as_text(overrides)).config
    if cfg.dry_run:
        raise ConfigError("dry_run: the job would end at once; leave it out, scripts/slurm checks the run anyway")
    run = config.read(cfg)
    _refuse_other_place(request, run)
    run = config.check(run, request.place)
    refuse_foreign_folder(run)
    if request.requeue and run.checkpoint.every is None:
        raise ConfigError(
            "--requeue: checkpoint.every=null keeps nothing to go on from; set checkpoint.every to a number of steps"
        )
    return run


def _refuse_other_place(request: Request, run: Run) -> None:
    """Slurm starts the workers, so whatever else the options say of them would be passed over in silence."""
    launch = run.launch
    wanted = {"nodes": (launch.nodes, 1, request.nodes), "processes": (launch.processes, "auto", request.tasks)}
    for key, (value, default, ours) in wanted.items():
        if value not in (default, ours):
            raise ConfigError(f"launch.{key}: {value} is not what Slurm is asked for, which is {ours}; leave it out")
    others = {"node_rank": 0, "rendezvous": None, "max_restarts": 0}
    for key, default in others.items():
        if (value := getattr(launch, key)) != default:
            hint = "; use --requeue" if key == "max_restarts" else "; leave it out"
            raise ConfigError(f"launch.{key}: {value} is for workers that train.py starts, and here Slurm does{hint}")
