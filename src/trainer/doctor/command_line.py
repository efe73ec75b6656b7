"""What the command `doctor` says of a run's folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from trainer.doctor.examine import examine
from trainer.doctor.finding import Finding
from trainer.doctor.pipelined import pipelined
from trainer.doctor.situation import ranks, shared_out, situation
from trainer.doctor.typical import settled, typical_ms
from trainer.doctor.wording import ms, several, share
from trainer.overlap import evidence
from trainer.overlap.evidence import Evidence


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what there is to say; the exit code: 0, or 2 for a folder that does not exist."""
    parser = argparse.ArgumentParser(
        prog="doctor", description="Tells what costs a run time, and the one change to try for each."
    )
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="the run's folder, such as runs/digits/2026-11-29_18-15-04"
    )
    folder = parser.parse_args(arguments).run
    if not folder.is_dir():
        print(f"doctor: there is no folder {folder}; a run prints its own when it ends", file=sys.stderr)
        return 2
    read = evidence.read(folder)
    console = Console(highlight=False)
    console.print(Text(_summary(read), style="bold"))
    findings = examine(read)
    for number, finding in enumerate(findings, 1):
        _print(console, number, finding)
    if not findings:
        console.print("Nothing stands out." if settled(read) else "There is nothing to judge.")
    for lack in lacks(read):
        console.print(Text(f"Missing: {lack}", style="yellow"))
    return 0


def lacks(read: Evidence) -> list[str]:
    """What is missing, and what cannot be judged for that."""
    at, unjudged = situation(read), "bucket sizes, hooks and the network are not judged."
    told = list(read.lacks)
    if shared_out(read) and not typical_ms(read, "comm"):
        told.append("What a model that is shared out sends on a GPU is not measured: communication is not judged.")
    if at is not None and at.step is None:
        told.append(f"No step was recorded span by span: {unjudged}")
    elif at is not None and at.link is None:
        told.append(f"The recorded steps differ too much to reckon with: {unjudged}")
    return told


def _summary(read: Evidence) -> str:
    parts = [str(read.folder)]
    count, step_ms, at = ranks(read), typical_ms(read, "step", worst=True), situation(read)
    if count:
        hosts = len(set(read.hosts))
        parts.append(several(count, "rank") + (f" on {several(hosts, 'host')}" if hosts else ""))
    if step_ms:
        parts.append(f"{ms(step_ms)} a step")
    if at is not None:
        parts.append(f"{share(at.hidden)} of {ms(at.comm_ms)} of communication hidden")
    pipeline = pipelined(read)
    if pipeline is not None:
        parts.append(f"{share(pipeline.bubble)} of a step is bubble")
    return ", ".join(parts)


def _print(console: Console, number: int, finding: Finding) -> None:
    saves = f"  saves about {ms(finding.gain_ms)} a step" if finding.gain_ms is not None else ""
    console.print()
    console.print(Text.assemble((f"{number}. {finding.title}", "bold"), (saves, "green")))
    console.print(Padding(finding.evidence, (0, 0, 0, 3)), markup=False)
    # Never wrapped, to be copied whole.
    console.print(Text.assemble("   try: ", (finding.advice, "cyan")), soft_wrap=True)
