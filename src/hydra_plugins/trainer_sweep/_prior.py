"""The prior of a study: Optuna's first trials are what a profile predicts to be fastest."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

# Trials that are queued; then the sampler is on its own.
COUNT = 4


def queue(config: DictConfig, trial: Any) -> None:
    """Hydra's sweeper calls this with each of a study's trials; behind the first one it queues the best predicted.

    The first is the sampler's own: it has begun when a study can be reached. Raises ConfigError.
    """
    from trainer.config import read
    from trainer.sweep import prior
    from trainer.tune import profile

    if trial.number > 0:
        return
    run = read(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    values = {key: getattr(space, "choices", ()) for key, space in trial.distributions.items()}
    ranked = prior.rank(profile.read(Path(config.sweep.prior)), run, values)
    with warnings.catch_warnings():
        # Optuna 2 calls it experimental, which Optuna 3 does no longer.
        warnings.simplefilter("ignore")
        for params in itertools.islice(ranked, COUNT):
            trial.study.enqueue_trial(params)
