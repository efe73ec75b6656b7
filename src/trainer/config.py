"""From a composed Hydra configuration to a checked Run. Only this file, preset/compose.py, train.py and Hydra's plugins
know hydra and omegaconf."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from trainer import compatibility
from trainer import place as places
from trainer.comm.base import CommHook
from trainer.data.base import Data
from trainer.logger.base import Logger
from trainer.model.base import Model
from trainer.nccl.base import Nccl
from trainer.optimizer.base import Optimizer
from trainer.parallel.base import Parallel
from trainer.preset import compose as presets
from trainer.profile.base import Profile
from trainer.run import Batch, Checkpoint, Clip, Evaluate, Launch, Log, Run
from trainer.schedule.base import Schedule
from trainer.spec import Component, ConfigError, Spec, did_you_mean, make, unknown_option, validate
from trainer.sweep.options import Sweep
from trainer.sync.base import Sync
from trainer.tune.base import Tune

# In the order in which they are checked: the schedule and the model ask the data, so it comes before them; the rule may
# ask the model.
GROUPS: dict[str, type[Component]] = {
    "parallel": Parallel,
    "comm": CommHook,
    "nccl": Nccl,
    "optimizer": Optimizer,
    "data": Data,
    "schedule": Schedule,
    "model": Model,
    "sync": Sync,
    "profile": Profile,
    "tune": Tune,
}
NODES: dict[str, type[Spec]] = {
    "batch": Batch,
    "clip": Clip,
    "evaluate": Evaluate,
    "checkpoint": Checkpoint,
    "log": Log,
    "launch": Launch,
}
# Keys of the root that say what train.py shall do, and are no property of the run.
COMMANDS = ("dry_run", "sweep")
# Choices that come with extras of the package.
EXTRAS = {"hydra/launcher/submitit_slurm": "slurm", "hydra/sweeper/optuna": "sweep"}


def resolve(cfg: DictConfig, folder: str | Path | None = None, resume: str | Path | None = None) -> Run:
    """Check a composed configuration and give the Run; `folder` and `resume`, a checkpoint, override the configured
    ones, as multirun needs.

    1. Interpolations are resolved and the tree becomes plain data. 2. Every group's node becomes its component.
    3. The number of processes and the device are decided. 4. Every component checks itself against the whole run.
    5. The transport's variables are looked up on this machine.

    Raises ConfigError for the first thing that is wrong. Starts nothing and writes nothing.
    """
    return check(read(cfg, folder, resume))


def read(cfg: DictConfig, folder: str | Path | None = None, resume: str | Path | None = None) -> Run:
    """Steps 1 and 2 of `resolve`: every option is known and every value allowed by itself. Nothing knows its place."""
    try:
        tree: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "config"
        wrong = "no value is given" if isinstance(error, MissingMandatoryValue) else str(error).splitlines()[0]
        raise ConfigError(f"{key}: {wrong}; set {key}=<value>") from None
    values = {key: value for key, value in tree.items() if key not in COMMANDS}
    if folder is not None:
        values["folder"] = str(folder)
    if resume is not None:
        values["checkpoint"] = {**(values.get("checkpoint") or {}), "resume": str(resume)}

    known = set(Run.model_fields) - {"place"}
    for key in values:
        if key not in known:
            raise ConfigError(presets.misplaced(key) or unknown_option(key, known))
    for group, base in GROUPS.items():
        values[group] = make(values.get(group), base, group)
    # `logger=[]` composes to null; no logger at all is a choice.
    loggers = values.get("logger") or {}
    values["logger"] = {name: make(node, Logger, f"logger.{name}") for name, node in loggers.items()}
    if folder is not None:
        if type(values["tune"]) is not Tune:
            raise ConfigError("tune: a sweep ranks runs that train; leave out -m, or use tune=none")
        values["logger"] = {name: made.in_sweep(Path(folder).parent.name) for name, made in values["logger"].items()}
    for key, node in NODES.items():
        values[key] = validate(node, values.get(key, {}), key)
    return validate(Run, {**values, "place": None})


def check(run: Run, place: places.Place | None = None) -> Run:
    """Steps 3 to 5 of `resolve`: what does not go together, or not on this machine, is refused.

    For a run that will be at `place`, elsewhere, nothing is looked up on this machine.
    """
    run = run.model_copy(update={"place": place or _place(run.launch, run.parallel)})
    for component in [getattr(run, group) for group in GROUPS] + list(run.logger.values()):
        component.check(run)
    compatibility.check(run)
    _check(run)
    if run.parallel.pipeline.size > 1:
        # Tracing a model takes half a second to import.
        from trainer.pipeline.check import check as check_pipeline

        check_pipeline(run)
    if run.parallel.tensor.size > 1:
        from trainer.tensor.check import check as check_tensor

        check_tensor(run.model.skeleton(run.data.sample()), run.parallel.tensor.size, run.parallel.tensor.sequence)
    if run.parallel.data.shard:
        from trainer.parallel.fsdp import check as check_sharded

        check_sharded(run.model.skeleton(run.data.sample()))
    resume = None
    if run.checkpoint.resume is not None:
        # Reading checkpoints takes half a second to import.
        from trainer.resume import check_resume

        resume = check_resume(run)
    checkpoint = run.checkpoint.model_copy(update={"resume": None if resume is None else str(resume)})
    nccl = run.nccl if place else run.nccl.settle(run)
    return run.model_copy(update={"checkpoint": checkpoint, "nccl": nccl})


def sweep_of(cfg: DictConfig) -> Sweep:
    """The options of a sweep. Raises ConfigError for one that is wrong."""
    options = validate(Sweep, OmegaConf.to_container(cfg.sweep, resolve=True), "sweep")
    options.more_is_better  # noqa: B018 - asked here so that it is refused before the first run
    return options


def _place(launch: Launch, parallel: Parallel) -> places.Place:
    processes = None if launch.processes == "auto" else launch.processes
    place = places.find_place(processes, launch.nodes, *parallel.ranks())
    if place.launcher == "train" and launch.nodes > 1 and launch.rendezvous is None:
        raise ConfigError(
            f"launch.rendezvous: {launch.nodes} nodes need a place to meet; set"
            " launch.rendezvous=<host of node 0>:29500"
        )
    if launch.node_rank >= launch.nodes:
        raise ConfigError(
            f"launch.node_rank: {launch.node_rank} is not below launch.nodes={launch.nodes}; nodes are numbered from 0"
        )
    if launch.rendezvous is not None and not launch.rendezvous.rpartition(":")[2].isdigit():
        raise ConfigError(
            f"launch.rendezvous: {launch.rendezvous!r} has no port; write host:port, for example n0:29500"
        )
    return place


def _check(run: Run) -> None:
    """What no single component can see."""
    if run.steps is None and run.epochs is None:
        raise ConfigError("steps: neither steps nor epochs is set; set one of them, for example steps=1000")
    pieces = run.data_size * run.batch.microbatches
    if run.batch.size % pieces:
        below, above = run.batch.size // pieces * pieces, -(-run.batch.size // pieces) * pieces
        near = f"{below} or {above}" if below else str(above)
        raise ConfigError(
            f"batch.size: {run.batch.size} does not divide by {run.data_size} data ranks x {run.batch.microbatches}"
            f" micro-batches; use {near}"
        )
    if run.data.count() < run.batch.size:
        raise ConfigError(
            f"batch.size: {run.batch.size} samples a step, but data has only {run.data.count()} to train on; use fewer"
        )
    if run.precision == "fp16" and run.place.device == "cpu":
        raise ConfigError("precision: fp16 has no fast products on a CPU; use precision=bf16 or precision=fp32")
    _check_writable(run.folder)


def _check_writable(folder: Path) -> None:
    existing = folder
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ConfigError(f"folder: cannot write to {existing}; choose another place with folder=<path>")


def explain(error: Exception, overrides: list[str], conf: Path) -> str | None:
    """What made composing fail as one line in our form, with what was probably meant; None if it cannot be told."""
    if isinstance(error, ValueError):
        return _no_name(overrides, conf)
    told = presets.explain(error, overrides)
    if told is not None or not isinstance(error, HydraException):
        return told
    if isinstance(error, MissingConfigException) and error.missing_cfg_file is not None:
        group, _, name = str(error.missing_cfg_file).rpartition("/")
        extra = EXTRAS.get(str(error.missing_cfg_file))
        hint = f"; pip install -e '.[{extra}]' brings it" if extra else did_you_mean(name, error.options or ())
        return f"{group or 'config'}: there is no {group or 'config'} '{name}'{hint}"
    first = str(error).splitlines()[0].rstrip(".")
    unknown = re.match(r"Could not (?:override|delete) '(?:[^']*@)?([^']+)'", first)
    if unknown is None:
        return f"command line: {first}; write group=name or option=value"
    choices = [word for word in overrides if re.match(r"[a-z_]+=", word)]
    return unknown_option(unknown[1], _options(choices, conf))


def _no_name(overrides: list[str], conf: Path) -> str | None:
    """The line for a choice that is a number or null, as in `comm=8`, for which Hydra has none; it is asked in quotes.

    None where all choices are names, and something else raised a ValueError.
    """
    parsed = OverridesParser.create().parse_overrides([word for word in overrides if not word.startswith("-")])
    for override in (one for one in parsed if (conf / one.key_or_group).is_dir()):
        value = override.value()
        choices = value.list if isinstance(value, ChoiceSweep) else [value]
        unnamed = [choice for choice in choices if choice is None or isinstance(choice, int | float)]
        if unnamed:
            named = f"{override.key_or_group}='{json.dumps(unnamed[0])}'"
            try:
                with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
                    compose("config", [named])
            except HydraException as error:
                return explain(error, [named], conf)
    return None


def _options(choices: list[str], conf: Path) -> set[str]:
    """All options, dotted, of the configuration with `choices` made, or of the default one if they do not compose."""
    with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
        for attempt in (choices, []):
            try:
                return set(_dotted(OmegaConf.to_container(compose("config", attempt), resolve=False)))
            except HydraException:
                continue
    return set()


def _dotted(tree: Any, prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")
