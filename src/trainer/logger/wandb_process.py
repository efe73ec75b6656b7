"""The process that talks to W&B: JSON lines come in on standard input, the first one says how to start.

Run as `python -m trainer.logger.wandb_process`. A tracker that cannot be reached, answers nonsense or hangs harms nobody
else here.
"""

from __future__ import annotations

import json
import netrc
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

DEFAULT_SERVER = "https://api.wandb.ai"


def main(lines: Iterable[str]) -> None:
    stream = iter(lines)
    start = json.loads(next(stream))
    mode = start["mode"]
    if mode == "auto":
        mode = "online" if has_key(os.environ) else "offline"
    try:
        send(mode, start["init"], stream)
    except Exception as error:  # the client raises many types, and some only when it finishes
        reason = str(error).strip().splitlines() or [type(error).__name__]
        print(
            f"wandb: stopped ({reason[0]}); training goes on, and all metrics are in metrics.jsonl",
            file=sys.stderr,
            flush=True,
        )
        for _ in stream:  # keep the pipe open until the run ends, so that this is the only line about it
            pass


def send(mode: str, init: dict[str, Any], stream: Iterable[str]) -> None:
    """Start a W&B run and log each line of `stream` to it."""
    import wandb

    settings = wandb.Settings(silent=True, console="off", init_timeout=60, disable_git=True, disable_code=True)
    run = wandb.init(**init, mode=mode, resume="allow" if mode == "online" else None, settings=settings)
    if mode == "offline":
        folder = Path(run.dir).parent
        say = f"offline run in {folder}; look at it with `wandb leet {folder}` or upload it with `wandb sync {folder}`"
    else:
        say = f"online at {run.url}"
    print(f"wandb: {say}", file=sys.stderr, flush=True)
    for line in stream:
        entry = json.loads(line)
        run.log(entry["metrics"], step=entry["step"])
    run.finish()


def has_key(environment: Any) -> bool:
    """Whether W&B's client would find a key: in the environment, or in a netrc file's entry for its server."""
    if environment.get("WANDB_API_KEY"):
        return True
    host = urlparse(environment.get("WANDB_BASE_URL", DEFAULT_SERVER)).hostname
    path = Path(environment.get("NETRC", Path.home() / ".netrc"))
    try:
        return host is not None and netrc.netrc(str(path)).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


if __name__ == "__main__":
    # The trainer ends this process by closing its input; a signal meant for the training must not cut an upload.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    main(sys.stdin)
