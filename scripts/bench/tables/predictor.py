"""What tune=advise predicts of every setting, beside what the setting takes: error, ranking, and what was chosen."""

from __future__ import annotations

import dataclasses
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import vl_convert

from scripts.bench.case import Case, Variant
from scripts.bench.lab import measure as measure_case
from scripts.bench.predicted import Point, picture, summary, table
from scripts.bench.table import Table
from scripts.bench.tables import pipeline
from trainer.tune.advice import predict
from trainer.tune.profile import Profile, read
from trainer.tune.program import Choice
from trainer.tune.scale import Cluster, Wire, scaled

PROFILE = "profile"
PICTURE = "predictor.png"
# Settings from most corners of the space; nothing in the model was fitted to any of them.
EARLY = (
    *(Choice("allreduce", "strict", size) for size in (1.0, 5.0, 25.0, 100.0)),
    *(Choice("fp16", "strict", size) for size in (5.0, 25.0)),
    *(Choice(hook, "strict", 25.0) for hook in ("int8", "onebit", "topk")),
    Choice("allreduce", "partitioned", 5.0),
)
# Those that leave transfers to do beside the next step; they have fallen behind as far as they will only after some.
LATE = (
    *(Choice(hook, "next_forward") for hook in ("allreduce", "fp16", "onebit", "topk")),
    Choice("allreduce", "delayed", 25.0),
)
CHOICES = (*EARLY, *LATE)
MODELS = {
    "ResNet-18 on 32x32 images": ("model=resnet", "data=synthetic", "optimizer.lr=0.001"),
    "ResNet-50, replayed": ("model=replay", "model.table=resnet50", "data=synthetic"),
    "BERT-base, replayed": ("model=replay", "model.table=bert_base", "data=synthetic"),
}
# How many of a model, with gradients, residuals and momenta, fit into 24 GiB: a setting has one on every rank.
FIT = dict(zip(MODELS, (64, 32, 8), strict=True))
# Samples of a rank.
SHARE = 8
SLOW = "100mbit"
RESNET_18, RESNET_50, BERT = MODELS
# Left out is what takes longest: BERT-base has four times the bytes of ResNet-50, and on four hosts only two of its
# settings fit into memory at once.
CELLS = (
    *itertools.product([RESNET_18, RESNET_50], (2, 4), (SLOW, "1gbit", "none")),
    (BERT, 2, "1gbit"),
    (BERT, 2, "none"),
)
SCHEDULES = ("1gbit", "none")


class Turns(NamedTuple):
    """How often a cell's settings take turns, and for how long."""

    rounds: int
    steps: int
    lead: int
    """steps before them that do not count"""
    late_lead: int
    """the same where `LATE` settings fall behind"""


# Over the slow link a step takes ten seconds, and varies little.
TURNS, SLOW_TURNS = Turns(3, 2, 1, 7), Turns(2, 1, 0, 3)
# How far ahead of the slowest rank the others may be under `delayed`, and then leave it their cores.
TRAIL = 2


def measure(quick: bool) -> Iterator[Table]:
    """A table a cell of the grid, one of pipeline schedules a rate, and one over all of them."""
    cells: dict[str, Sequence[Point]] = {}
    afar: dict[str, Sequence[Point]] = {}
    on_two: dict[tuple[str, str], Profile] = {}
    for model, ranks, rate in [(RESNET_18, 2, "none")] if quick else CELLS:
        case, profile, seconds = _cell(model, ranks, rate, quick)
        title = f"{model}, {case.network}"
        cells[title] = _points(profile, seconds)
        if ranks == 2:
            on_two[model, rate] = profile
        else:
            afar[title] = _points(_moved(on_two[model, rate], ranks), seconds)
        yield table(title, _setting(case), cells[title])
    for rate in () if quick else SCHEDULES:
        case, points = _schedules(rate)
        title = f"Schedules of a pipeline, {case.network}"
        cells[title] = points
        yield table(title, _setting(case), points)
    yield summary(f"From the tables above.\n\n![Predicted over measured steps]({PICTURE})", cells, afar)


def draw(tables: Sequence[Table], folder: Path) -> None:
    """The picture of all points, predicted over measured, into the docs' folder."""
    (folder / PICTURE).write_bytes(vl_convert.vegalite_to_png(picture(tables[:-1]), scale=1.5))


def _cell(model: str, ranks: int, rate: str, quick: bool) -> tuple[Case, Profile, Mapping[str, Sequence[float]]]:
    """A cell's case, the profile that was measured before its settings, and the seconds a step of these."""
    with tempfile.TemporaryDirectory(prefix="predictor-") as folder:
        path = Path(folder) / "profile.json"
        parts = [part.shortened() if quick else part for part in _parts(model, ranks, rate, path)]
        seconds: dict[str, Sequence[float]] = {}
        for part in parts:
            seconds |= measure_case(part).seconds
        return parts[0], read(path), seconds


def _parts(model: str, ranks: int, rate: str, profile: Path) -> Iterator[Case]:
    """All settings of a cell, as many in a case as fit into memory; the first case begins with the profile."""
    # A replayed layer takes as long whatever the batch; a real one shall have as many samples on every host.
    overrides = (*MODELS[model], f"batch.size={SHARE * ranks}")
    rounds, steps, early_lead, late_lead = SLOW_TURNS if rate == SLOW else TURNS
    together = FIT[model] // ranks
    first = (Variant(PROFILE, "profile", options={"path": str(profile)}),)
    for choices, lead, trail in ((EARLY, early_lead, 0), (LATE, late_lead, TRAIL)):
        for start in range(0, len(choices), together):
            some = choices[start : start + together]
            variants = (*first, *(Variant(_name(choice), "ours", _overrides(choice)) for choice in some))
            times = {"rounds": rounds, "steps": steps, "lead": lead, "trail": trail, "warmup": 2}
            yield Case("Predictor", variants, PROFILE, overrides, ranks, rate, **times)
            first = ()


def _setting(case: Case) -> str:
    return f"`{' '.join(case.overrides)}`; {case.rounds} rounds of {case.steps} steps."


def _points(profile: Profile, seconds: Mapping[str, Sequence[float]]) -> list[Point]:
    return [Point(_name(choice), seconds[_name(choice)], predict(profile, choice).outcome.step_s) for choice in CHOICES]


def _moved(profile: Profile, hosts: int) -> Profile:
    """A profile of two hosts on more of them, which share the same machine's cores."""
    there = scaled(profile, Cluster(hosts, 1, Wire(*profile.wire)))
    return dataclasses.replace(there, cores=profile.cores * profile.hosts / hosts)


def _schedules(rate: str) -> tuple[Case, list[Point]]:
    """Every schedule of a pipeline, as `parallel.pipeline.schedule=auto` predicts it and as it is."""
    auto = ("parallel.pipeline.schedule=auto",)
    with tempfile.TemporaryDirectory(prefix="predictor-") as folder:
        paths = [Path(folder) / name for name in ("four", "eight")]
        forecasts = tuple(
            Variant(path.name, "forecast", (*auto, *split), {"path": str(path)})
            for path, split in zip(paths, ((), (pipeline.EIGHT,)), strict=True)
        )
        variants = (*forecasts, *pipeline.SCHEDULES)
        case = Case("Schedules", variants, forecasts[0].name, pipeline.PACED, 4, rate, rounds=TURNS.rounds, lead=1)
        seconds = measure_case(case).seconds
        predicted = {name: step_s for path in paths for name, step_s in json.loads(path.read_text()).items()}
    return case, [Point(one.name, seconds[one.name], predicted[one.name]) for one in pipeline.SCHEDULES]


def _name(choice: Choice) -> str:
    return " ".join(_overrides(choice))


def _overrides(choice: Choice) -> tuple[str, ...]:
    settings = [f"comm={choice.comm}"]
    if choice.sync != "strict":
        settings.append(f"sync={choice.sync}")
    if choice.sync == "delayed":
        settings.append("sync.warmup_steps=0")
    if choice.bucket_cap_mb is not None:
        settings.append(f"parallel.data.bucket_cap_mb={choice.bucket_cap_mb:g}")
    return tuple(settings)
