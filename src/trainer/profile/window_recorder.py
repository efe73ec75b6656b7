"""Records a window of steps with torch.profiler, and writes what it and the meter saw."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from trainer.overlap import kernels, trace
from trainer.overlap.agreement import compare
from trainer.overlap.meter import Meter, PastStep
from trainer.profile.profiler import Profiler
from trainer.profile.recording import Recording

log = logging.getLogger(__name__)


class WindowRecorder(Recording):
    """Writes `rank<r>.json.gz`, the trace, and `rank<r>.overlap.json`, the meter's ratios beside the profiler's own.

    1. One step before the window the profiler warms up. 2. It stops where the window's last step has ended. 3. When the
    meter knows the times of all these steps, which on a GPU is some steps later, everything is written at once. A rank
    has files of its own, so it needs no other rank for them.
    """

    def __init__(
        self, meter: Meter, device: Literal["cpu", "cuda"], folder: Path, rank: int, first_step: int, steps: int
    ) -> None:
        self.meter, self.device, self.folder, self.rank = meter, device, folder, rank
        self.window = range(first_step, first_step + steps)
        self._profiler: Profiler | None = None
        # The steps that began, by the meter's own numbers: it may begin afresh without a step of the run.
        self._steps: dict[int, int] = {}
        self._past: dict[int, PastStep] = {}

    def begin_step(self, step: int) -> None:
        with self._or_without():
            if self._profiler is None and step in (self.window.start - 1, self.window.start):
                self._profiler = Profiler(self.device)
            if self._profiler is not None and step == self.window.start:
                self._profiler.start()
        if step in self.window:
            self._steps[self.meter.number + 1] = step

    def measured(self, steps: Sequence[PastStep]) -> None:
        self._past |= {self._steps[past.number]: past for past in steps if past.number in self._steps}
        if self._profiler is not None and self.window[-1] in self._steps.values():
            with self._or_without():
                self._profiler.stop()
                if len(self._past) == len(self._steps):
                    self._write(self._profiler)

    def close(self) -> None:
        """Write what there is of a window that the end of the run cut short."""
        if self._profiler is not None and self._steps:
            with self._or_without():
                self._profiler.stop()
                self._write(self._profiler)

    def _write(self, profiler: Profiler) -> None:
        self._over()
        self.folder.mkdir(parents=True, exist_ok=True)
        recorded, anchor = profiler.trace(self.folder)
        work = (kernels.on_gpu if self.device == "cuda" else kernels.on_cpu)(recorded["traceEvents"], anchor)
        compared = {"rank": self.rank, **compare(self._past, work)}
        recorded["traceEvents"] += trace.lanes(self._past, anchor, self.rank)
        path = self.folder / f"rank{self.rank}.json.gz"
        trace.write(path, recorded)
        (self.folder / f"rank{self.rank}.overlap.json").write_text(json.dumps(compared, indent=1) + "\n")
        log.info("profile: %s/%s; %s", self.folder.name, path.name, _verdict(compared))

    def _over(self) -> None:
        """Nothing more is to be recorded."""
        self._profiler, self.window = None, range(0)

    @contextlib.contextmanager
    def _or_without(self) -> Iterator[None]:
        """The training goes on whatever becomes of the body: no profiler, another one at work, a full disk."""
        try:
            yield
        except Exception as error:
            log.warning("profile: %s; the training goes on without a trace", " ".join(str(error).split()))
            self._over()


def _verdict(compared: dict[str, Any]) -> str:
    seen = {who: compared[who].get("hidden_ratio") for who in ("profiler", "meter")}
    ratios = [f"{100 * ratio:.0f} % by the {who}" for who, ratio in seen.items() if ratio is not None]
    blind = [who for who, ratio in seen.items() if ratio is None]
    parts = [f"hidden {', '.join(ratios)}"] if ratios else []
    return "; ".join(parts + ([f"no communication seen by the {' and the '.join(blind)}"] if blind else []))
