"""What the kernel does not keep of a lab: the shape that was asked for. And the locks, so that nobody comes between."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

from trainer.lab import kernel
from trainer.lab.layout import Lab, LabError, lab_of

FOLDER = Path("/run/netlab")


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """Hold off every other netlab that would make, change or remove a lab."""
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def running(lab: Lab) -> Iterator[None]:
    """Hold off another `run` in the same lab, which would meet on the same port."""
    with _path(lab.name).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(
                f"run: another run uses lab '{lab.name}'; wait for it, or make a lab of another --name"
            ) from None
        yield


def write(lab: Lab) -> None:
    """Remember a lab. The file stays the same one, because a run may hold its lock."""
    _path(lab.name).write_text(json.dumps({**dataclasses.asdict(lab), "subnet": str(lab.subnet)}) + "\n")


def read(name: str) -> Lab | None:
    """The remembered lab; None if there is none or its file was left half-written."""
    try:
        values = json.loads(_path(name).read_text())
        return Lab(**{**values, "subnet": IPv4Network(values["subnet"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def forget(name: str) -> None:
    """Remove what `write` wrote; the logs of its hosts stay, they may tell why it went wrong."""
    _path(name).unlink(missing_ok=True)


def names() -> list[str]:
    """The names of all labs, whole or not, that have left a trace in the kernel or in a file."""
    present = {name for name in map(lab_of, kernel.namespaces()) if name is not None}
    return sorted(present | {path.stem for path in FOLDER.glob("*.json")})


def log_path(name: str, host: int) -> Path:
    """The file that the output of host number `host`, other than 0, goes to in a run."""
    return FOLDER / name / f"host{host}.log"


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"
