"""The process that talks to W&B: JSON lines come in on standard input, the first one says how to start.

Run as `python -m trainer.logger.wandb_process`. A tracker that cannot be reached, answers nonsense or hangs harms
nobody else here, and outlives nobody for long.
"""

from __future__ import annotations

import contextlib
import json
import netrc
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TextIO
from urllib.parse import urlparse

from trainer.signals import ignore_stopping


def main(lines: Iterable[str], told: TextIO) -> None:
    """Start as the first of `lines` says and log the others; what the user should know is written to `told`."""
    stream = iter(lines)
    start = json.loads(next(stream))
    stream = _limited(stream, start["finish_timeout_s"])
    try:
        send(start["mode"], start["init"], stream, told)
    except Exception as error:  # the client raises many types, and some only when it finishes
        reason = str(error).strip().splitlines() or [type(error).__name__]
        _tell(told, f"stopped ({reason[0]}); training goes on, and all metrics are in metrics.jsonl")
        for _ in stream:  # keep the pipe open until the run ends, so that this is the only line about it
            pass


def send(
    mode: Literal["auto", "online", "offline"], init: Mapping[str, Any], stream: Iterable[str], told: TextIO
) -> None:
    """Start a W&B run and log each line of `stream` to it."""
    import wandb

    settings = wandb.Settings(silent=True, console="off", init_timeout=60, disable_git=True, disable_code=True)
    if mode == "auto":
        online = has_key(os.environ, wandb.setup(settings).settings.base_url)
        mode = "online" if online and os.environ.get("WANDB_MODE") != "offline" else "offline"
    run = wandb.init(**init, mode=mode, resume="allow" if mode == "online" else None, settings=settings)
    if mode == "offline":
        folder = Path(run.dir).parent
        say = f"offline run in {folder}; look at it with `wandb leet {folder}` or upload it with `wandb sync {folder}`"
    else:
        say = f"online at {run.url}"
    _tell(told, say)
    for line in stream:
        entry = json.loads(line)
        if "picture" in entry:
            picture = entry["picture"]
            table = wandb.Table(columns=picture["columns"], data=picture["rows"])
            run.log({picture["name"]: wandb.Image(picture["path"]), f"{picture['name']}_table": table})
        else:
            run.log(entry["metrics"], step=entry["step"])
    run.finish()


def has_key(environment: Mapping[str, str], server: str) -> bool:
    """Whether W&B's client would find a key for `server`: in the environment, or in a netrc file."""
    if environment.get("WANDB_API_KEY") or environment.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    path = Path(environment.get("NETRC") or "~/.netrc").expanduser()
    try:
        # The port is part of the machine's name in the entry that `wandb login` writes.
        entry = netrc.netrc(str(path)).authenticators(urlparse(server).netloc)
        return entry is not None and bool(entry[2])
    except (OSError, netrc.NetrcParseError):
        return False


def _tell(told: TextIO, message: str) -> None:
    with contextlib.suppress(OSError):  # a trainer that was killed hears nothing
        print(f"wandb: {message}", file=told)


def _limited(stream: Iterator[str], finish_timeout_s: float) -> Iterator[str]:
    """`stream`, at whose end this process has so many seconds to live.

    A trainer that waits ends it sooner itself; this is for one that was killed.
    """
    yield from stream
    signal.setitimer(signal.ITIMER_REAL, finish_timeout_s + 1)


def _detach() -> tuple[TextIO, TextIO]:
    """Standard input and standard error for ourselves alone.

    The client and its service print much and would hold our pipe open: they get the null device.
    """
    lines, told = os.fdopen(os.dup(0)), os.fdopen(os.dup(2), "w", buffering=1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    return lines, told


if __name__ == "__main__":
    # The trainer ends this process by closing its input; a signal meant for the training must not cut an upload.
    ignore_stopping()
    main(*_detach())
