"""What the command `sweep` does: the ranking of a sweep's folder, also while it runs, or by another objective."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from trainer.spec import ConfigError, validate


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, write sweep.csv and the page; the exit code: 0 done, 2 where they cannot be."""
    parser = argparse.ArgumentParser(
        "sweep", description="Rank the runs of a sweep: a table, sweep.csv and sweep.html."
    )
    parser.add_argument("sweep", type=Path, help="the sweep's folder, such as runs/digits/2026-11-29_18-15-04-026312")
    parser.add_argument("--objective", help="rank by this metric instead of the sweep's own")
    parser.add_argument("--direction", choices=["auto", "max", "min"], help="which value wins")
    parser.add_argument("--target", type=float, help="rank by the seconds of training until the metric was here")
    given = parser.parse_args(arguments)

    # These load PyTorch, which --help need not wait for.
    from trainer.sweep.conclusion import conclude
    from trainer.sweep.options import Sweep
    from trainer.sweep.result import read_all

    results = read_all(given.sweep)
    if not results:
        print(
            f"sweep: {given.sweep} holds no results of a sweep; name the folder that a sweep printed", file=sys.stderr
        )
        return 2
    own = next(iter(results.values())).options
    asked = {"objective": given.objective, "direction": given.direction, "target": given.target}
    try:
        options = validate(Sweep, own.model_dump() | {key: value for key, value in asked.items() if value is not None})
        # Asked here, so that it is refused before anything is read.
        _ = options.more_is_better
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    conclude(given.sweep, options)
    return 0
