"""What Hydra calls of a sweep: a sweeper for grids, a launcher that starts one run after another, and the ranking.

Hydra takes plugins from modules of this namespace only, and imports them at every start; what they need of the trainer
is imported when there is a sweep.
"""

# Without annotations from the future: Hydra runs this module before it is in sys.modules, where dataclasses would look.

import contextlib
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.experimental.callback import Callback
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write


class Job(NamedTuple):
    config: DictConfig
    folder: Path
    refused: str
    """why it cannot run; empty where it can"""


class Grid(BasicSweeper):
    """Every combination of the values given, or where a sweep goes on, those that are missing."""

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Run the grid. Raises ConfigError or HydraException, before anything is written, if one of its runs has an
        option that does not exist or a value that no run can have."""
        from trainer.config import sweep_of
        from trainer.sweep import grid

        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        given = parser.parse_overrides([*self._parse_config(), *arguments])
        overrides = [each for each in given if each.key_or_group != "sweep.resume"]
        jobs = [job for batch in self.split_arguments(overrides, None) for job in batch]
        resume = sweep_of(self.config).resume
        _refuse_empty(overrides, jobs, isinstance(self.launcher, Local) and resume is None)

        known: dict[str, Sequence[str]] = {}
        if resume is not None:
            known, jobs = self._rest(Path(resume), overrides, jobs)
        folder = Path(self.config.hydra.sweep.dir)
        checked = check(self.hydra_context, self.config, jobs)
        if not known:
            known = {str(job.folder.relative_to(folder)): each for job, each in zip(checked, jobs, strict=True)}
        if writes(self.config):
            if resume is None:
                grid.open_new(folder)
                OmegaConf.save(self.config, folder / "multirun.yaml")
            grid.write(folder, known)
        if isinstance(self.launcher, Local):
            self.launcher.expect(checked)
        returns: list[Sequence[JobReturn]] = []
        for batch in self.split_overrides_to_chunks(jobs, self.max_batch_size) if jobs else ():
            returns.append(self.launcher.launch(batch, initial_job_idx=sum(map(len, returns))))
        for each in [each for batch in returns for each in batch]:
            _ = each.return_value  # raises what ended a job of a launcher of another kind
        return returns

    def _rest(
        self, folder: Path, overrides: list[Override], jobs: list[list[str]]
    ) -> tuple[dict[str, Sequence[str]], list[list[str]]]:
        """The grid of the sweep in `folder`, with what is new in `jobs`, and what remains to be done of it."""
        from trainer.sweep import grid, result

        known = grid.read(folder)
        if writes(self.config):
            grid.claim(folder)
        own = [str(each.input_line) for each in overrides if each.key_or_group.startswith("sweep.")]
        if len(own) == len(overrides):
            # Only the folder is named: all of its grid is asked for.
            jobs = [[*job, *own] for job in known.values()]
        rest = grid.remaining(jobs, known, result.read_all(folder))
        if speaks(self.config):
            print(*(f"sweep: {line}" for line in rest.lines), sep="\n", flush=True)
        with read_write(self.config.hydra):
            self.config.hydra.sweep.dir = str(folder)
        # For launchers that compose each job elsewhere.
        quoted = "'" + str(folder).replace("'", "\\'") + "'"
        place = [f"hydra.sweep.dir={quoted}"]
        return {**known, **rest.jobs}, [[*job, *place, f"hydra.sweep.subdir={name}"] for name, job in rest.jobs.items()]


class Local(Launcher):
    """One run after another on this machine, each apart from the others; whatever ends one, the rest goes on."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config
        self._jobs: list[Job] = []
        self._progress: Any = None
        self._learns = config.hydra.sweeper._target_ != GridConf._target_
        if self._learns:
            _refuse_sweeper(config)

    def expect(self, jobs: Sequence[Job]) -> None:
        """Of a sweeper that knows all its jobs before the first starts: they need not be checked again."""
        self._jobs = list(jobs)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs; those that cannot run are named before the first starts."""
        from trainer.launch import Stopped
        from trainer.sweep import grid
        from trainer.sweep.isolation import stoppable
        from trainer.sweep.progress import Progress
        from trainer.sweep.result import read_all

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
            self._progress = Progress(max(trials, len(self._jobs)), refused, before)
        try:
            with stoppable():
                returned = [self._run(job) for job in jobs]
        except (Stopped, SystemExit) as stop:
            # Nothing that Hydra calls at the end of a sweep would be called.
            _conclude(self.config)
            sys.exit(128 + stop.number if isinstance(stop, Stopped) else stop.code)
        if self._learns and len(self._jobs) >= self._progress.total and self._progress.best is None:
            # Optuna fails where none of its trials has a value.
            sys.exit(_conclude(self.config))
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


class Ranking(Callback):
    """Tells a sweeper which values are good, and ends a sweep with its table."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Optuna's direction is the objective's, unless the user says another, which is then refused."""
        from trainer.config import sweep_of
        from trainer.spec import ConfigError

        said = any(each.startswith("hydra.sweeper.direction=") for each in config.hydra.overrides.hydra)
        if "direction" in config.hydra.sweeper and not said:
            # What is wrong with the options is told by the sweeper, whose exceptions Hydra lets through.
            with contextlib.suppress(ConfigError):
                config.hydra.sweeper.direction = _direction(sweep_of(config))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Exit with a code that is not 0, as a single run does."""
        if code := _conclude(config):
            # Hydra makes a warning of any exception.
            sys.exit(code)


def check(context: HydraContext, master: DictConfig, batch: Sequence[Sequence[str]], first: int = 0) -> list[Job]:
    """Compose and check jobs, of which the first has number `first`, without starting or writing anything.

    Raises HydraException or ConfigError for an option that does not exist or a value that no run can have.
    """
    from trainer.config import check, read
    from trainer.spec import ConfigError

    jobs = []
    before = HydraConfig.instance().cfg
    # Each run says it again when it begins.
    logging.disable(logging.INFO)
    try:
        for number, overrides in enumerate(batch, first):
            config = context.config_loader.load_sweep_config(master, list(overrides))
            with read_write(config.hydra), open_dict(config.hydra):
                config.hydra.job.id = config.hydra.job.num = number
                # One folder for all, also where the job's name, of which the folder is made, is another.
                config.hydra.sweep.dir = master.hydra.sweep.dir
            HydraConfig.instance().set_config(config)
            folder = Path(config.hydra.sweep.dir, str(config.hydra.sweep.subdir))
            run = read(OmegaConf.masked_copy(config, [key for key in config if key != "hydra"]), folder)
            refused = ""
            try:
                check(run)
            except ConfigError as error:
                refused = str(error)
            jobs.append(Job(config, folder, refused))
    finally:
        logging.disable(logging.NOTSET)
        HydraConfig.instance().cfg = before
    return jobs


def speaks(config: DictConfig) -> bool:
    """Whether this process is the first of all that run the same sweep."""
    return os.environ.get("RANK", "0") == "0" and config.launch.node_rank == 0


def writes(config: DictConfig) -> bool:
    """Whether this process writes what is the sweep's."""
    return speaks(config) and not config.dry_run


def _conclude(config: DictConfig) -> int:
    from trainer.config import sweep_of
    from trainer.sweep.conclusion import conclude

    return conclude(Path(config.hydra.sweep.dir), sweep_of(config)) if writes(config) else 0


def _refuse_empty(overrides: Sequence[Override], jobs: Sequence[Sequence[str]], needs_grid: bool) -> None:
    """Raise ConfigError for a grid without runs, of a sweep's own options, or where needed, with nothing swept."""
    from trainer.spec import ConfigError

    swept = [each for each in overrides if each.is_sweep_override()]
    for each in swept:
        if each.key_or_group.startswith("sweep."):
            raise ConfigError(
                f"{each.key_or_group}: one sweep has one value of it, and {each.input_line} gives several; name one"
            )
    if not jobs:
        empty = next((each for each in swept if not list(each.sweep_string_iterator())), None)
        where = f"{empty.key_or_group}: {empty.input_line} has no values" if empty else "-m: the grid has no runs"
        raise ConfigError(f"{where}; name some, as in -m comm=allreduce,topk")
    if needs_grid and not swept:
        raise ConfigError(
            "-m: nothing is swept; give an option several values, as in -m comm=allreduce,topk, or leave out -m"
        )


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
    direction = OmegaConf.select(config, "hydra.sweeper.direction")
    named = str(getattr(direction, "name", direction))
    wanted = _direction(options)
    if named in ("minimize", "maximize") and named != wanted:
        raise ConfigError(
            f"hydra.sweeper.direction: {named} would look for the worst {options.title}; set"
            f" hydra.sweeper.direction={wanted}, or sweep.direction"
        )


def _direction(options: Any) -> str:
    return "maximize" if options.largest_first else "minimize"


@dataclass
class GridConf(BasicSweeperConf):
    _target_: str = "hydra_plugins.trainer_sweep.Grid"


@dataclass
class LocalConf:
    _target_: str = "hydra_plugins.trainer_sweep.Local"


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridConf, provider="trainer")
ConfigStore.instance().store(group="hydra/launcher", name="local", node=LocalConf, provider="trainer")
