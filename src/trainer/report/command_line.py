"""What the command `report` does: the page of a run, from the run's folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and print its path; the exit code: 0 done, 2 where there is no run or no place to write."""
    parser = argparse.ArgumentParser("report", description="Write report.html into a run's folder.")
    parser.add_argument("run", type=Path, help="the run's folder, such as runs/digits/2026-11-29_18-15-04-026312")
    folder = parser.parse_args(arguments).run
    if not folder.is_dir():
        print(f"report: {folder} is no folder; name one that a run printed at its end", file=sys.stderr)
        return 2

    # These load PyTorch and a JavaScript engine, which --help and a wrong path need not wait for.
    from trainer.doctor.examine import examine
    from trainer.overlap.evidence import read
    from trainer.report.page import write

    evidence = read(folder)
    try:
        print(write(evidence, examine(evidence)))
    except OSError as error:
        print(f"report: {folder} cannot be written to ({error}); copy the folder to where it can", file=sys.stderr)
        return 2
    return 0
