"""What is called at both ends of a sweep, whoever starts its runs."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from hydra_plugins.trainer_sweep._jobs import conclude

if TYPE_CHECKING:
    from trainer.sweep.options import Sweep

PRIOR = "hydra_plugins.trainer_sweep._prior.queue"


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
                config.hydra.sweeper.direction = direction(sweep_of(config))
        # Hydra's sweeper calls that with every trial; one of the user's own is refused beside a prior.
        if config.sweep.prior is not None and config.hydra.sweeper.get("custom_search_space", PRIOR) is None:
            config.hydra.sweeper.custom_search_space = PRIOR

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Exit with a code that is not 0, as a single run does."""
        if code := conclude(config):
            # Hydra makes a warning of any exception.
            sys.exit(code)


def direction(options: Sweep) -> str:
    """What Optuna calls the way to the best value."""
    return "maximize" if options.largest_first else "minimize"
