"""The launcher that starts one run after another."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.trainer_sweep._jobs import Job, check, conclude, writes
from hydra_plugins.trainer_sweep._ranking import PRIOR, direction

GRID = "hydra_plugins.trainer_sweep._grid.Grid"


class Local(Launcher):
    """One run after another on this machine, each apart from the others; whatever ends one, the rest goes on."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from trainer import nursery, place

        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config
        self._jobs: list[Job] = []
        self._progress: Any = None
        self._learns = config.hydra.sweeper._target_ != GRID
        if self._learns:
            _refuse_sweeper(config)
        if not config.dry_run and place.launcher(os.environ) == "train":
            # It loads while the jobs are composed, and serves them all.
            nursery.open_early()

    def expect(self, jobs: Sequence[Job]) -> None:
        """Of a sweeper that knows all its jobs before the first starts: they need not be checked again."""
        self._jobs = list(jobs)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs; those that cannot run are named before the first starts."""
        from trainer.launch import Stopped
        from trainer.sweep import grid
        from trainer.sweep.isolation import stoppable
        from trainer.sweep.progress import Progress
        from trainer.sweep.result import read_all, swept

        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        if initial_job_idx == len(self._jobs):
            self._jobs += check(self.hydra_context, self.config, job_overrides, initial_job_idx)
            if initial_job_idx == 0 and writes(self.config):
                grid.open_new(Path(self.config.hydra.sweep.dir))
        jobs = self._jobs[initial_job_idx : initial_job_idx + len(job_overrides)]
        for job in jobs:
            if job.refused and len(jobs) > 1:
                self._say(f"sweep: {job.folder.name} is refused and left out: {job.refused}")
        if self._progress is None:
            trials = OmegaConf.select(self.config, "hydra.sweeper.n_trials") or 0
            refused = sum(bool(job.refused) for job in self._jobs)
            before = read_all(Path(self.config.hydra.sweep.dir))
            keys = swept([job.config.hydra.overrides.task for job in self._jobs])
            self._progress = Progress(max(trials, len(self._jobs)), refused, before, keys)
        try:
            with stoppable():
                returned = [self._run(job) for job in jobs]
        except (Stopped, SystemExit) as stop:
            # Nothing that Hydra calls at the end of a sweep would be called.
            conclude(self.config)
            sys.exit(128 + stop.number if isinstance(stop, Stopped) else stop.code)
        if self._learns and len(self._jobs) >= self._progress.total and self._progress.best is None:
            # Optuna fails where none of its trials has a value.
            sys.exit(conclude(self.config))
        return returned

    def _run(self, job: Job) -> JobReturn:
        from trainer.config import sweep_of
        from trainer.sweep import result
        from trainer.sweep.isolation import isolated

        overrides = [str(each) for each in job.config.hydra.overrides.task]
        self._say(self._progress.starts(job.folder.name, overrides))
        began = time.monotonic()
        try:
            with isolated():
                returned = run_job(
                    hydra_context=self.hydra_context,
                    task_function=self.task_function,
                    config=job.config,
                    job_dir_key="hydra.sweep.dir",
                    job_subdir_key="hydra.sweep.subdir",
                )
        except OSError as error:
            # Its folder could not be made, as on a full disk.
            reason = f"folder: cannot write to {job.folder} ({error.strerror}); make room, and go on with sweep.resume"
            failed = result.Result(overrides=overrides, options=sweep_of(job.config), status="failed", reason=reason)
            result.keep(job.folder, failed)
            returned = JobReturn(overrides=overrides, status=JobStatus.COMPLETED)
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        if self.config.dry_run:
            with contextlib.suppress(OSError):
                # Hydra made it, and nobody wrote into it.
                os.removedirs(job.folder)
        elif (found := result.read(job.folder)) is not None:
            self._say(self._progress.ended(job.folder.name, found, time.monotonic() - began))
        return returned

    def _say(self, line: str) -> None:
        if writes(self.config):
            print(line, flush=True)


def _refuse_sweeper(config: DictConfig) -> None:
    """Raise ConfigError where a sweeper that learns from results cannot work."""
    from trainer import place
    from trainer.config import sweep_of
    from trainer.spec import ConfigError

    options = sweep_of(config)
    if place.launcher(os.environ) == "other" or config.launch.nodes > 1:
        raise ConfigError(
            "hydra/sweeper: each process would choose trials of its own; start this sweeper with python train.py on one"
            " machine, or sweep a grid"
        )
    if options.resume is not None:
        raise ConfigError(
            "sweep.resume: only a grid goes on from its folder; this sweeper does with hydra.sweeper.storage and"
            " hydra.sweeper.study_name"
        )
    if options.prior is not None and not Path(options.prior).is_file():
        raise ConfigError(
            f"sweep.prior: {options.prior!r} is no file; give the profile.json that a run with tune=advise wrote"
        )
    if options.prior is not None and OmegaConf.select(config, "hydra.sweeper.custom_search_space") != PRIOR:
        raise ConfigError(
            "sweep.prior: it goes the way of hydra.sweeper.custom_search_space, which is taken; leave one of them out"
        )
    given = OmegaConf.select(config, "hydra.sweeper.direction")
    named = str(getattr(given, "name", given))
    wanted = direction(options)
    if named in ("minimize", "maximize") and named != wanted:
        raise ConfigError(
            f"hydra.sweeper.direction: {named} would look for the worst {options.title}; set"
            f" hydra.sweeper.direction={wanted}, or sweep.direction"
        )
