"""What is made of a sweep's results when it ends, or is asked about: the table, sweep.csv and the page."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from trainer.sweep import ranking
from trainer.sweep.objective import measured
from trainer.sweep.options import Sweep
from trainer.sweep.result import Result, read_all


def conclude(sweep: Path, options: Sweep) -> int:
    """Rank what the folder holds by `options`, print and write the ranking, and give the sweep's exit code.

    What cannot be written is told in a line: the runs have ended, and the table is on the terminal.
    """
    options = options.model_copy(update={"resume": None})
    results = {
        name: result if result.options == options else measured(sweep / name, result, options)
        for name, result in read_all(sweep).items()
    }
    if not results:
        return 0
    ranked = ranking.rank(results, options)
    ranking.show(ranked, f"{sweep}: {_counted(results)}")
    try:
        from trainer.sweep import page

        print(f"table: {ranking.write(ranked, sweep)}")
        print(f"page: {page.write(ranked, sweep)}")
    except Exception as error:  # whatever is wrong with a page, the runs are done
        print(f"sweep: failed with {type(error).__name__}: {error}; scripts/sweep {sweep} tries again", file=sys.stderr)
    if ranked.nobody_wrote:
        print(ranked.nobody_wrote, file=sys.stderr)
    if unended := [name for name, result in results.items() if result.status in ("running", "stopped")]:
        print(f"sweep: {len(unended)} runs did not end; go on with python train.py -m sweep.resume={sweep}")
    print(f"sweep folder: {sweep}", flush=True)
    return ranked.code


def _counted(results: Mapping[str, Result]) -> str:
    statuses = [result.status for result in results.values()]
    counts = {status: statuses.count(status) for status in dict.fromkeys(statuses)}
    return f"{len(statuses)} runs, " + ", ".join(f"{count} {status}" for status, count in counts.items())
