"""The sweeper for grids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, read_write

from hydra_plugins.trainer_sweep._jobs import check, speaks, writes
from hydra_plugins.trainer_sweep._local import Local


class Grid(BasicSweeper):
    """Every combination of the values given, or where a sweep goes on, those that are missing."""

    hydra_context: HydraContext
    config: DictConfig
    launcher: Launcher

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Run the grid. Raises ConfigError or HydraException, before anything is written, if one of its runs has an
        option that does not exist or a value that no run can have."""
        from trainer.config import sweep_of
        from trainer.spec import ConfigError
        from trainer.sweep import grid

        options = sweep_of(self.config)
        if options.prior is not None:
            raise ConfigError(
                "sweep.prior: a grid runs all of its jobs anyway; add hydra/sweeper=optuna, or leave it out"
            )
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        given = parser.parse_overrides([*self._parse_config(), *arguments])
        overrides = [each for each in given if each.key_or_group != "sweep.resume"]
        jobs = [job for batch in self.split_arguments(overrides, None) for job in batch]
        resume = options.resume
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
        if all(each.key_or_group.startswith(("sweep.", "launch.")) for each in overrides):
            # Only the folder is named, and how to rank and where to run: all of its grid is asked for.
            own = {each.get_key_element(): str(each.input_line) for each in overrides}
            jobs = [
                [*(each for each in job if each.partition("=")[0] not in own), *own.values()] for job in known.values()
            ]
        rest = grid.remaining(jobs, known, result.read_all(folder))
        if speaks(self.config):
            print(*(f"sweep: {line}" for line in rest.lines), sep="\n", flush=True)
        with read_write(self.config.hydra):
            self.config.hydra.sweep.dir = str(folder)
        # For launchers that compose each job elsewhere.
        quoted = "'" + str(folder).replace("'", "\\'") + "'"
        place = [f"hydra.sweep.dir={quoted}"]
        return {**known, **rest.jobs}, [[*job, *place, f"hydra.sweep.subdir={name}"] for name, job in rest.jobs.items()]


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
