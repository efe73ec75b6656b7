"""What is asked of Slurm, checked before Slurm is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from trainer.place import Place
from trainer.run import Count
from trainer.spec import ConfigError, Spec, validate

# Minutes with seconds, hours before them, and days before those, as Slurm's manual has it.
TIME = re.compile(r"\d+(:[0-5]?\d){0,2}|\d+-\d+(:[0-5]?\d){0,2}|UNLIMITED")
# What the file says itself.
OURS = {
    "account", "chdir", "cpus-per-task", "gpus-per-node", "job-name", "mem", "nodes", "no-requeue", "ntasks",
    "ntasks-per-node", "open-mode", "output", "partition", "qos", "requeue", "signal", "time",
}  # fmt: skip
# So many seconds earlier than it is told Slurm may send a signal.
EARLY_S = 60


def _a_time(value: str) -> str:
    if not TIME.fullmatch(value):
        raise PydanticCustomError("time", "write 90 for minutes, 1:30:00 for hours, or 2-12:00:00 with days")
    return value


def _a_memory(value: str) -> str:
    if not re.fullmatch(r"\d+[KMGT]?", value):
        raise PydanticCustomError("memory", "write a whole number and a unit, as in 64G")
    return value


def _a_word(value: str) -> str:
    if not re.fullmatch(r"[^\s'\"\\]+", value):
        raise PydanticCustomError("word", "it is a word without spaces and quotes")
    return value


def _an_option(value: str) -> str:
    name = re.match(r"([a-z][a-z-]*)(=[^\n]+)?$", value)
    if not name:
        raise PydanticCustomError("option", "write it as in constraint=h100, or exclusive")
    if name[1] in OURS:
        raise PydanticCustomError("option", "the file says that itself; scripts/slurm --help tells how")
    return value


Word = Annotated[str, AfterValidator(_a_word)]


class Request(Spec):
    """A job of as many tasks a node as the run has workers there."""

    nodes: Count = 1
    """the number of machines"""
    gpus: Count | None = None
    """the number of GPUs on each node, and of workers; one of gpus and processes is given"""
    processes: Count | None = None
    """the number of workers on each node, without GPUs; one of gpus and processes is given"""
    cpus: Count | None = None
    """the number of cores for each worker"""
    mem: Annotated[str, AfterValidator(_a_memory)] | None = None
    """the memory of each node"""
    time: Annotated[str, AfterValidator(_a_time)] | None = None
    """the longest that the job may run"""
    partition: Word | None = None
    """the name of the partition"""
    account: Word | None = None
    """the name of the account"""
    qos: Word | None = None
    """the quality of service"""
    requeue: bool = False
    """whether the job goes back into the queue when it is stopped before its end"""
    save: Count = 120
    """the number of seconds before the time is up at which the run saves a checkpoint and leaves"""
    sbatch: tuple[Annotated[str, AfterValidator(_an_option)], ...] = ()
    """more options of sbatch"""
    setup: tuple[str, ...] = ()
    """lines of the shell before the run"""

    @property
    def tasks(self) -> int:
        """The number of workers on each node."""
        return self.gpus or self.processes or 1

    @property
    def place(self) -> Place:
        """That of the run; a task of a step is a worker already."""
        device: Literal["cpu", "cuda"] = "cuda" if self.gpus else "cpu"
        return Place("other", device, self.nodes, self.tasks)


def read(options: Mapping[str, Any]) -> Request:
    """The request of these options of the command line, None where one is not given. Raises ConfigError."""
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    try:
        request = validate(Request, {key: value for key, value in given.items() if value is not None})
    except ConfigError as error:
        raise ConfigError(f"--{error}") from None
    if (request.gpus is None) == (request.processes is None):
        both = "neither of them is" if request.gpus is None else "both are"
        raise ConfigError(f"--gpus or --processes: {both} given; say --gpus 8, or on CPUs --processes 4")
    _refuse_no_time(request)
    return request


def _refuse_no_time(request: Request) -> None:
    """A run that is told to leave as soon as it begins would, with `requeue`, do so for ever."""
    needed = request.save + EARLY_S
    if request.time is not None and (limit := _seconds(request.time)) is not None and limit <= needed:
        raise ConfigError(
            f"--time: {request.time} is {limit} s, and Slurm may tell the run to leave {needed} s before its end,"
            f" --save={request.save} and up to {EARLY_S} s early; set a longer --time or a shorter --save"
        )


def _seconds(time: str) -> int | None:
    """What a `time` means, None for no limit."""
    if time == "UNLIMITED":
        return None
    days, dash, rest = time.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if not dash and len(parts) < 3:
        # Of minutes, perhaps with seconds.
        parts = [0, *parts]
    hours, minutes, seconds = [*parts, 0, 0][:3]
    # A limit of zero is none.
    return (((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds) or None
