"""What a sweep says while it runs, in lines that a log file keeps readable."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence

from trainer.report import units
from trainer.sweep.ranking import rank
from trainer.sweep.result import Result


class Progress:
    """Counts the runs of a sweep; every line says where it stands."""

    def __init__(self, total: int, before: dict[str, Result] | None = None) -> None:
        self.total = total
        """the number of runs that this process will do"""
        self._results = dict(before or {})
        self._seconds: list[float] = []

    def starts(self, job: str, overrides: Sequence[str]) -> str:
        return f"sweep: run {len(self._seconds) + 1} of {self.total}, {job}: {' '.join(overrides) or 'no overrides'}"

    def ended(self, job: str, result: Result, seconds: float) -> str:
        """Count the run; `seconds` is what it took now."""
        self._results[job] = result
        self._seconds.append(seconds)
        parts = [f"sweep: run {len(self._seconds)} of {self.total}, {job}: {result.status} in {seconds:.1f} s"]
        if result.value is not None:
            parts.append(f"{result.options.title} {units.short(result.value, 4)}")
        elif result.status == "done":
            parts.append(result.reason)
        best = rank(self._results, result.options).best
        if best is not None and best.result.value is not None:
            parts.append(f"best so far {units.short(best.result.value, 4)} ({best.job})")
        if left := self.total - len(self._seconds):
            # A refused run takes no time and says nothing of the others.
            took = [each for each in self._seconds if each >= 1] or self._seconds
            parts.append(f"about {datetime.timedelta(seconds=round(left * statistics.fmean(took)))} left")
        return "; ".join(parts)
