"""Hydra's side of presets: where it looks for them, what they compose to, and its complaints in our words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from trainer.preset import includes, renames, sources
from trainer.preset.sources import CONF, GROUP
from trainer.spec import ConfigError, did_you_mean


class SharedPresets(SearchPathPlugin):
    """Puts the sources of shared presets behind the trainer's own conf."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for source in sources.shared():
            search_path.append(source.name, f"file://{source.folder}")


def register() -> None:
    """Let Hydra, and whatever composes in this process from now on, find shared presets.

    Composing raises ConfigError where one of their folders is missing or two have a file of the same name.
    """
    Plugins.instance().register(SharedPresets)


class Composed(NamedTuple):
    config: DictConfig
    choices: dict[str, Any]
    """the choice of each group, a list where there may be several"""

    def tree(self) -> dict[str, Any]:
        """All options as plain data; one that a user has to give is `???`. Raises ConfigError."""
        try:
            tree: Any = OmegaConf.to_container(self.config, resolve=True, throw_on_missing=False)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{error.full_key}: {str(error).splitlines()[0]}; set {error.full_key}=<value>") from None
        return tree


def composed(overrides: Sequence[str] = ()) -> Composed:
    """The configuration with `overrides`, not checked. Raises what `explain` explains."""
    register()
    # Within a run Hydra has the same folder open already, and opens it once.
    opened = GlobalHydra.instance().is_initialized()
    with contextlib.nullcontext() if opened else initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", list(overrides), return_hydra_config=True)
    choices = {group: choice for group, choice in config.hydra.runtime.choices.items() if "/" not in group}
    # Hydra tells no choices of a group of which there may be several.
    choices["logger"] = list(config.logger or {}) if "logger" in config else []
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    return Composed(config, choices)


def as_yaml(values: Mapping[str, Any]) -> str:
    """YAML that Hydra reads as `values`: numbers are quoted where they are text, and nothing is interpolated."""
    return OmegaConf.to_yaml(OmegaConf.create(_escaped(dict(values))))


def _escaped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _escaped(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(entry) for entry in value]
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value


def explain(error: Exception, overrides: Sequence[str]) -> str | None:
    """What is wrong with a preset in one line, if it is a preset that made composing fail with `error`."""
    if isinstance(error, RecursionError):
        words = [word.partition("=")[2] for word in overrides if word.startswith(f"{GROUP}=")]
        chosen = [name for word in words for name in word.split(",")]
        known = sources.everywhere()
        circles = (includes.circle(name, known) for name in [*chosen, *(preset.name for preset in known)])
        return next(filter(None, circles), None)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{mark.name}: line {mark.line + 1} is no YAML ({error.problem}); write option: value"
    if not isinstance(error, HydraException):
        return None
    first = str(error).splitlines()[0].rstrip(".")
    within = re.match(rf"In '({GROUP}/[^']+)': ", first)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file is not None:
        return _missing(str(error.missing_cfg_file), within and within[1])
    group = re.search(r"Could not override '([^']+)'", first) if within else None
    if within and group:
        if f"@{GROUP}." in group[1]:
            return misplaced(GROUP)
        new = renames.read().option(group[1])
        hint = f"; it is now called {new}" if new else did_you_mean(group[1], composed().choices)
        return f"{within[1]}: there is no group '{group[1]}'{hint}"
    several = re.match(r"Multiple values for (\w+)\. To override a value use '(override) (.*)'", first)
    if several:
        return f"{several[1]}: is chosen twice; in a preset write '{several[2]} /{several[3]}'"
    return f"{within[1]}: {first[within.end() :]}" if within else None


def misplaced(key: str) -> str | None:
    """The line for a preset whose values came to lie within the root's key `key`."""
    if key != GROUP:
        return None
    return f"{GROUP}: its file's first line must be '# @package _global_', or its values are no options of a run"


def _missing(file: str, within: str | None) -> str | None:
    """The line for a choice that no file is named after; None for what is no matter of presets."""
    new = renames.read().choice(file)
    if new is not None:
        group, _, choice = new.rpartition("/")
        return f"{file}: is now called {new}; choose {group}={choice}, in a preset override /{group}: {choice}"
    top, _, name = file.partition("/")
    if top != GROUP:
        return None
    known = [preset.name for preset in sources.everywhere()]
    if within is None:
        return f"{GROUP}: there is no {GROUP} '{name}'{did_you_mean(name, known)}"
    # Names are taken from the group on, not from the folder of the file that includes them.
    beside = f"{within.removeprefix(f'{GROUP}/').rpartition('/')[0]}/{name}"
    hint = f"; write '/{GROUP}/{beside}'" if beside in known else did_you_mean(name, known)
    return f"{within}: includes '{name}', which does not exist{hint}"
