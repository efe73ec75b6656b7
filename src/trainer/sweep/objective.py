"""The value by which a run is ranked, from the metrics that it wrote."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from trainer.overlap import evidence
from trainer.overlap.evidence import Evidence
from trainer.report import series
from trainer.sweep.options import Sweep
from trainer.sweep.result import Result


class NoValue(Exception):
    """A run has no value of the objective; the message says why."""


def results(run: Evidence) -> dict[str, float]:
    """Every metric of the run that is a mean over ranks: a result as it ended, anything else as it typically was."""
    names = {name for line in run.metrics for name in line.values if not name.endswith("/worst")}
    found = ((name, series.result(run, name)) for name in sorted(names))
    return {name: value for name, value in found if value is not None}


def measure(run: Evidence, options: Sweep) -> float:
    """The value that ranks the run: of the metric, or where there is a target, the seconds until it was reached.

    Raises NoValue where the run did not write the metric, or did not come to the target.
    """
    if options.target is not None:
        return _seconds_until(run, options)
    value = series.result(run, options.objective)
    if value is None:
        raise NoValue(missing(options.objective, results(run)))
    return value


def measured(folder: Path, result: Result, options: Sweep) -> Result:
    """The result with the metrics of the run in `folder`, ranked by `options` if it was done."""
    found = evidence.metrics_of(folder)
    known = {"options": options, "metrics": results(found)}
    try:
        value = measure(found, options) if result.status == "done" else None
        return result.model_copy(update={**known, "value": value})
    except NoValue as why:
        return result.model_copy(update={**known, "value": None, "reason": str(why)})


def missing(objective: str, wrote: Iterable[str]) -> str:
    """Says that nobody wrote `objective`, and what there was to choose from."""
    names = sorted(wrote)
    if not names:
        return f"no {objective}: no metrics were written; keep jsonl among the loggers, as logger=[console,jsonl] does"
    near = difflib.get_close_matches(objective, names, n=1)
    meant = f"; did you mean '{near[0]}'?" if near else ""
    return (
        f"no {objective}{meant} There were: {', '.join(names)}"
        if meant
        else f"no {objective}; there were: {', '.join(names)}"
    )


def _seconds_until(run: Evidence, options: Sweep) -> float:
    """Seconds of training steps; evaluations, checkpoints and the start are not in them."""
    assert options.target is not None
    past = [
        (step, value) for step, found in run.series(options.objective) if (value := series.number(found)) is not None
    ]
    if not past:
        raise NoValue(missing(options.objective, results(run)))
    sign = 1 if options.more_is_better else -1
    reached = next((step for step, value in past if sign * (value - options.target) >= 0), None)
    if reached is None:
        best = sign * max(sign * value for _, value in past)
        raise NoValue(f"{options.objective} came to {best:g} and not to {options.target:g}")
    seconds, last = 0.0, 0
    for step, ms in run.series("speed/step_ms"):
        # The line that holds the step at which it was reached counts as far as that step.
        seconds += (min(step, reached) - last) * ms / 1000
        last = step
        if step >= reached:
            return seconds
    raise NoValue(
        f"speed/step_ms was not written up to step {reached}, so its seconds are not known; set log.every lower"
    )
