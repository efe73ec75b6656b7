"""What a run's folder tells about it, as far as it goes: a run may still be running, or be cut, or older than this."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from trainer.overlap import stages
from trainer.overlap.record import VERSION

Lane = str


class Header(BaseModel):
    """The first line of ranks.jsonl."""

    step: int
    version: int
    hosts: list[str]
    """the host of each rank"""
    links_gbit: list[float | None] = []
    """the nominal speed of each rank's network interface, where it is known"""
    devices: list[str] = []
    """what each rank computes with"""
    software: dict[str, str] = {}
    """releases of torch, and of NCCL where it was used"""
    date: str | None = None
    """of the start, as YYYY-MM-DD"""


class Event(NamedTuple):
    """One span of a timeline; times in ms, the same clock for all ranks."""

    lane: Lane
    name: str
    start_ms: float
    end_ms: float
    size: float
    """bytes that it is about: of a bucket's gradients"""
    bytes: float
    """bytes that the rank sent"""


class Window(BaseModel):
    """A line of ranks.jsonl: `steps` steps that end with `step`."""

    step: int
    steps: int
    ranks: list[dict[str, float]]
    """each rank's means a step, under the names of `meter.SUMS` and `peers`, in seconds and bytes"""
    timeline: list[list[Event]] | None = None
    """every rank's spans in the last of the steps"""

    def step_seconds(self) -> float:
        """The slowest rank's step."""
        return max((sums.get("step", 0.0) for sums in self.ranks), default=0.0)


class Metrics(BaseModel):
    """A line of metrics.jsonl."""

    model_config = ConfigDict(extra="allow")
    step: int

    @property
    def values(self) -> dict[str, float]:
        return self.__pydantic_extra__ or {}


Line = TypeVar("Line", bound=BaseModel)


class Evidence(NamedTuple):
    """What was found. Tests make one out of plain values."""

    folder: Path
    config: Mapping[str, Any] = MappingProxyType({})
    """run.yaml; empty where there is none"""
    metrics: Sequence[Metrics] = ()
    hosts: Sequence[str] = ()
    """of each rank, as in the header"""
    links_gbit: Sequence[float | None] = ()
    """likewise"""
    windows: Sequence[Window] = ()
    lacks: Sequence[str] = ()
    """what is missing or could not be read, each in a sentence"""
    devices: Sequence[str] = ()
    """of each rank, likewise; older records have none"""
    software: Mapping[str, str] = MappingProxyType({})
    date: str | None = None
    """both as in the header"""

    def option(self, path: str, default: Any = None) -> Any:
        """The value of an option such as `parallel.data.bucket_cap_mb`, or `default` where the run has none."""
        node: Any = self.config
        for key in path.split("."):
            if not isinstance(node, Mapping) or key not in node:
                return default
            node = node[key]
        return node

    def component(self, group: str) -> str:
        """The module of a group's component, `topk` for trainer.comm.topk.TopK; empty if unknown."""
        return str(self.option(f"{group}._target_", "")).rpartition(".")[0].rpartition(".")[2]

    def series(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, in order."""
        return [(line.step, line.values[name]) for line in self.metrics if name in line.values]

    def typical(self, name: str) -> float | None:
        """The median of a metric, without its first value, which warms up; None where there is none."""
        values = [value for _, value in self.series(name)]
        return statistics.median(values[1:] or values) if values else None

    def stages(self) -> list[tuple[int, ...]]:
        """The stages of a pipeline on each rank, by the names of its recorded spans; empty ones without a pipeline."""
        recorded = next((window.timeline for window in self.windows if window.timeline), None)
        count = max((len(window.ranks) for window in self.windows), default=len(self.hosts))
        named = [stages.held(event.name for event in events) for events in recorded or []]
        return [*named, *[()] * (count - len(named))]

    def timeline(self) -> Window | None:
        """The recorded step whose window is nearest to the median step; the first, which warms up, only if alone."""
        recorded = [window for window in self.windows if window.timeline]
        recorded = recorded[1:] or recorded
        if not recorded:
            return None
        median = statistics.median(window.step_seconds() for window in recorded)
        return min(recorded, key=lambda window: abs(window.step_seconds() - median))


def read(folder: Path) -> Evidence:
    """Everything that can be read in `folder`; never raises for what is missing, half-written or unknown."""
    lacks: list[str] = []
    config: Any = {}
    if not folder.is_dir():
        lacks.append(f"{folder} is no folder.")
    try:
        config = yaml.safe_load((folder / "run.yaml").read_text())
    except FileNotFoundError:
        lacks.append("run.yaml is missing: the options of the run are not known.")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        lacks.append(f"run.yaml cannot be read ({_one_line(error)}): the options of the run are not known.")
    if not isinstance(config, Mapping):
        config = {}
    metrics = _lines(folder / "metrics.jsonl", Metrics, lacks)
    ranks = _lines(folder / "ranks.jsonl", Window, lacks, Header)
    headers = [line for line in ranks if isinstance(line, Header)]
    if headers and headers[0].version != VERSION:
        lacks.append(f"ranks.jsonl is of version {headers[0].version}, this program reads {VERSION}.")
    windows = [line for line in ranks if isinstance(line, Window)]
    header = headers[0] if headers else Header(step=0, version=VERSION, hosts=[])
    machines = (header.devices, header.software, header.date)
    return Evidence(folder, config, metrics, header.hosts, header.links_gbit, windows, lacks, *machines)


def metrics_of(folder: Path) -> Evidence:
    """Its metrics alone, without the much larger record of every rank."""
    lacks: list[str] = []
    return Evidence(folder, metrics=_lines(folder / "metrics.jsonl", Metrics, lacks), lacks=lacks)


def _lines(path: Path, model: type[Line], lacks: list[str], first: type[BaseModel] | None = None) -> list[Any]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        lacks.append(f"{path.name} is missing.")
        return []
    found: list[Any] = []
    bad = 0
    for number, line in enumerate(text.splitlines()):
        try:
            found.append((first if first and not number else model).model_validate_json(line))
        except ValidationError:
            bad += 1
    if bad:
        lacks.append(f"{path.name} has {bad} lines that cannot be read, such as one cut half-way; they are left out.")
    if not found:
        lacks.append(f"{path.name} is empty.")
    return found


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
