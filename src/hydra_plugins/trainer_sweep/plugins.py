"""The plugins, for Hydra to find, and their names in conf/config.yaml."""

# Without annotations from the future: Hydra runs this module before it is in sys.modules, where dataclasses would look.

from dataclasses import dataclass

from hydra._internal.core_plugins.basic_sweeper import BasicSweeperConf
from hydra.core.config_store import ConfigStore

from hydra_plugins.trainer_sweep._grid import Grid
from hydra_plugins.trainer_sweep._local import Local

__all__ = ["Grid", "Local"]


@dataclass
class GridConf(BasicSweeperConf):
    _target_: str = "hydra_plugins.trainer_sweep._grid.Grid"


@dataclass
class LocalConf:
    _target_: str = "hydra_plugins.trainer_sweep._local.Local"


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridConf, provider="trainer")
ConfigStore.instance().store(group="hydra/launcher", name="local", node=LocalConf, provider="trainer")
