"""The jobs of a sweep, composed and checked, and which of its processes writes."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hydra.core.hydra_config import HydraConfig
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict, read_write


class Job(NamedTuple):
    config: DictConfig
    folder: Path
    refused: str
    """why it cannot run; empty where it can"""


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
            run = read(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]), folder)
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
    from trainer import place

    return place.is_first(os.environ, config.launch.node_rank)


def writes(config: DictConfig) -> bool:
    """Whether this process writes what is the sweep's."""
    return speaks(config) and not config.dry_run


def conclude(config: DictConfig) -> int:
    """Rank what there is, where this process writes; the sweep's exit code."""
    from trainer.config import sweep_of
    from trainer.sweep.conclusion import conclude as rank

    return rank(Path(config.hydra.sweep.dir), sweep_of(config)) if writes(config) else 0
