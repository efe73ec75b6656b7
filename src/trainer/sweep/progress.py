"""What a sweep says while it runs, in lines that a log file keeps readable."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping, Sequence

from trainer.report import units
from trainer.sweep.ranking import Entry, rank
from trainer.sweep.result import Result, split


class Progress:
    """Counts the runs of a sweep; every line says where it stands. `keys` are swept, as far as that is known."""

    def __init__(
        self, total: int, refused: int = 0, before: Mapping[str, Result] | None = None, keys: Sequence[str] = ()
    ) -> None:
        self.total = total
        """the number of runs that this process will do"""
        self._idle = refused
        """of those to come, the ones known to take no time"""
        self._results = dict(before or {})
        self._keys = keys
        self._ended = 0
        self._took: list[float] = []

    @property
    def best(self) -> Entry | None:
        """The best run so far, by the options of the last one."""
        return rank(self._results, next(reversed(self._results.values())).options).best if self._results else None

    def starts(self, job: str, overrides: Sequence[str]) -> str:
        shown = [each for each in overrides if split(each)[0] in self._keys] or overrides
        return f"sweep: run {self._ended + 1} of {self.total}, {job}: {' '.join(shown)}"

    def ended(self, job: str, result: Result, seconds: float) -> str:
        """Count the run; `seconds` is what it took now."""
        self._results[job] = result
        self._ended += 1
        parts = [f"sweep: run {self._ended} of {self.total}, {job}: {result.status} in {seconds:.1f} s"]
        if result.value is not None:
            parts.append(f"{result.options.title} {units.short(result.value, 4)}")
        elif result.status == "done":
            parts.append(result.reason)
        best = self.best
        if best is not None and best.result.value is not None:
            parts.append(f"best so far {units.short(best.result.value, 4)} ({best.job})")
        if result.status == "refused":
            self._idle -= 1
        else:
            self._took.append(seconds)
        left = self.total - self._ended - max(0, self._idle)
        if left > 0 and self._took:
            parts.append(f"about {datetime.timedelta(seconds=round(left * statistics.fmean(self._took)))} left")
        return "; ".join(parts)
