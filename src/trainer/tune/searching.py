"""A search: predict all settings, run the best few for some steps, and keep the fastest that learns."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from trainer import place
from trainer.launch import WorkerFailed, describe
from trainer.overlap import evidence
from trainer.preset.save import keep
from trainer.preset.sources import GROUP
from trainer.run import Run
from trainer.tune import space
from trainer.tune.advice import LEAST_ERROR, Predicted, advise, overrides
from trainer.tune.base import Tune
from trainer.tune.learning import fall, share_learned
from trainer.tune.search import Search
from trainer.tune.short_run import WARMUP, quiet
from trainer.tune.trial import Seen, Trial

log = logging.getLogger(__name__)

NAME = "tuned"


@dataclass
class Tried:
    """A setting that was run."""

    predicted: Predicted
    rounds: list[float] = field(default_factory=list)
    """of each round, the median of its steps in seconds"""
    folder: Path = Path()
    """of its last trial"""
    learned: float | None = None
    """the share of the exact run's fall in loss that it had, where that was looked at"""
    failed: str = ""
    """why it could not be run to its end"""

    @property
    def step_s(self) -> float:
        return statistics.median(self.rounds) if self.rounds else math.inf

    def beats(self, other: Tried) -> bool:
        """Whether it was clearly faster in every round: each compares what ran next to each other."""
        rounds = zip(self.rounds, other.rounds, strict=False)
        return not self.failed and all(mine < theirs * (1 - LEAST_ERROR) for mine, theirs in rounds)


class Trials:
    """Starts short runs in fresh workers, each in a folder of its own inside the search's."""

    def __init__(self, run: Run, launch: Callable[[Run], Any]) -> None:
        self.run = run
        self._launch = launch
        self._number = 0

    def start(self, run: Run, count: int, every: int) -> tuple[Seen, Path]:
        """`count` steps of `run` with a line of metrics `every` steps, and their folder."""
        self._number += 1
        folder = self.run.folder / "trials" / f"{self._number:02}"
        silent = run.nccl.model_copy(update={"read_back": False})
        update = {"folder": folder, "tune": Trial(count=count), "nccl": silent}
        short = quiet(run, count, every).model_copy(update=update)
        return self._launch(short), folder


def search(run: Run, tune: Search, launch: Callable[[Run], Any]) -> None:
    """Predict, try, compare, and write the winner as a preset into the run's folder.

    1. A session of tune=advise measures the profile. 2. The best predicted settings and the present ones are run,
    interleaved. 3. Of those that were faster than the present ones in every round, the fastest is taken that is exact,
    or learns as the exact run does. Every node's launcher comes to the same end by itself.
    """
    profile = launch(run)
    allowed = space.hooks(run, tune.allow)
    now = space.present(run)
    advice = advise(profile, now, space.choices(run, tune.allow, allowed))
    present = Tried(advice.present)
    best = [Tried(one) for one in advice.best if one.outcome != advice.present.outcome][: tune.candidates]
    tried = [present, *best]
    trials = Trials(run, launch)
    for number in range(1, tune.rounds + 1):
        for one in (one for one in tried if not one.failed):
            log.info("round %d of %d: %s", number, tune.rounds, overrides(one.predicted.choice, now))
            with _told(one, may_fail=one is not present):
                _time(one, trials, space.under(run, one.predicted.choice, allowed), tune.trial)
    ranked = sorted(tried, key=lambda one: one.step_s)
    faster = [one for one in ranked if one is not present and one.beats(present)]
    exact: list[Seen] = []
    winner = next((one for one in faster if _learns(one, run, tune, allowed, trials, exact)), None)
    if not place.is_first(os.environ, run.launch.node_rank):
        return
    if winner is not None:
        lines = _keep(run, winner, present, allowed)
    elif exact and fall(exact[0].losses) <= 0:
        lines = [f"Nothing can be said of learning: the loss did not fall in {tune.budget} steps; raise tune.budget."]
    elif faster:
        lines = [
            f"What was faster learned less than {1 - tune.tolerance:.0%} of what the exact run did: keep the present"
            " settings."
        ]
    else:
        lines = [f"Nothing that may be chosen was faster in all of {tune.rounds} rounds: keep the present settings."]
    show(ranked, present, lines)


def _time(one: Tried, trials: Trials, settings: Run, count: int) -> None:
    """A trial of `one`; where replicas come together once a period, of whole periods, of which each step is a part."""
    period = one.predicted.choice.period if settings.sync.apart else 1
    count = math.ceil(count / period) * period
    seen, one.folder = trials.start(settings, count, every=WARMUP + count)
    typical = statistics.fmean if settings.sync.apart else statistics.median
    one.rounds.append(typical(seen.seconds))


@contextlib.contextmanager
def _told(one: Tried, may_fail: bool) -> Iterator[None]:
    """Workers that fail are a result of what was tried, and not of the search."""
    try:
        yield
    except WorkerFailed as error:
        if not may_fail:
            raise
        one.failed = str(error)


def _learns(one: Tried, run: Run, tune: Search, allowed: dict[str, Any], trials: Trials, exact: list[Seen]) -> bool:
    """Whether `one` changes no result, or learns; `exact` keeps what the exact run did."""
    choice = one.predicted.choice
    if space.is_alike(choice, run):
        return True
    if not exact:
        log.info("%d steps of the exact run, to compare learning with", tune.budget)
        exact.append(trials.start(space.exact(run), tune.budget, every=1)[0])
    log.info("%d steps of %s", tune.budget, overrides(choice, space.present(run)))
    with _told(one, may_fail=True):
        seen, _ = trials.start(space.under(run, choice, allowed), tune.budget, every=1)
    if one.failed:
        return False
    one.learned = share_learned(seen.losses, exact[0].losses)
    return one.learned is not None and one.learned >= 1 - tune.tolerance


def _keep(run: Run, winner: Tried, present: Tried, allowed: dict[str, Any]) -> list[str]:
    """Write the preset; what came out, a line each."""
    choice = winner.predicted.choice
    typed = overrides(choice, present.predicted.choice)
    came_out = (
        f"{typed}: {winner.step_s * 1000:.4g} ms a step, predicted {winner.predicted.outcome.step_s * 1000:.4g};"
        f" {present.step_s * 1000:.4g} ms before, {present.step_s / winner.step_s:.2f} times as much"
    )
    settings = space.under(run, choice, allowed).model_copy(update={"tune": Tune()})
    read = evidence.read(winner.folder)._replace(config=yaml.safe_load(describe(settings)))
    path = run.folder / GROUP / f"{NAME}.yaml"
    keep(read, NAME, path, f"Found by tune=search. {came_out}.")
    again = f"TRAINER_PRESETS={run.folder.resolve()} python train.py experiment={NAME}"
    return [came_out, f"preset: {path}; use it by {again}"]


def show(ranked: Sequence[Tried], present: Tried, lines: Sequence[str]) -> None:
    """Print what was tried, the fastest first, and then `lines`."""
    console = Console()
    table = Table(title="Tried", title_justify="left")
    for column in ("settings", "predicted", "measured", "÷ present", "learned"):
        table.add_column(column, justify="left" if column == "settings" else "right")
    for one in ranked:
        table.add_row(
            "present" if one is present else overrides(one.predicted.choice, present.predicted.choice),
            f"{one.predicted.outcome.step_s * 1000:.1f} ms",
            _range(one.rounds),
            f"{one.step_s / present.step_s:.3f}" if one.rounds else "",
            "failed" if one.failed else "" if one.learned is None else f"{one.learned:.0%}",
        )
    console.print(table)
    for one in ranked:
        if one.failed:
            console.print(f"{overrides(one.predicted.choice, present.predicted.choice)}: {one.failed}", soft_wrap=True)
    for line in lines:
        console.print(line, soft_wrap=True)


def _range(rounds: Sequence[float]) -> str:
    return f"{statistics.median(rounds) * 1000:.1f} ms ± {(max(rounds) - min(rounds)) / 2 * 1000:.1f}" if rounds else ""
