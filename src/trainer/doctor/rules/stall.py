"""One rank stopped for a while, and all others with it."""

from __future__ import annotations

import statistics

from trainer.doctor import lag
from trainer.doctor.finding import Finding
from trainer.doctor.typical import typical_ms
from trainer.doctor.wording import ms, several
from trainer.overlap.evidence import Evidence, Window

# A wait of fewer typical steps than this, or of less than a second, is a hiccup of the machine.
STEPS, LEAST_S = 10, 1.0
# In the first steps ranks compile and start loader processes, each at its own pace.
FIRST_LEAST_S = 10.0
# The rank that stopped waited for nobody: beyond the usual for at most this share of what the others waited.
OWN = 0.1


def look(evidence: Evidence) -> Finding | None:
    windows, step_ms = lag.complete(evidence.windows), typical_ms(evidence, "step", worst=True)
    if not windows or not step_ms:
        return None
    usual = [
        statistics.median(lag.idle(window.ranks[rank]) for window in windows if rank < len(window.ranks))
        for rank in range(max(len(window.ranks) for window in windows))
    ]
    stalls = [
        (seconds, rank, window)
        for number, window in enumerate(windows)
        for seconds, rank in [_longest(window, usual)]
        if seconds >= max(STEPS * step_ms / 1000, LEAST_S if number else FIRST_LEAST_S)
    ]
    if not stalls:
        return None
    seconds, rank, window = max(stalls, key=lambda stall: stall[0])
    total = sum(window.steps for window in windows)
    others = ""
    if len(stalls) > 1:
        rest = ms(_sum_ms(stalls) - seconds * 1000)
        others = f" And {several(len(stalls) - 1, 'more such wait')}, {rest} in all."
    return Finding(
        f"All waited {ms(seconds * 1000)} for {lag.name(evidence, rank)}",
        f"Between steps {window.step - window.steps + 1} and {window.step} it was"
        f" {_where(window, rank, seconds)}; a typical step takes {ms(step_ms)}.{others}",
        f"less {evidence.folder / 'logs' / f'rank{rank}.log'}",
        _sum_ms(stalls) / total if total else None,
    )


def _longest(window: Window, usual: list[float]) -> tuple[float, int]:
    """Seconds for which the others waited for the rank that waited least, all beyond the usual, and that rank.

    In a pipeline all others wait for it as well: its replicas with their gradients, and neighbouring stages.
    """
    waited = [max(0.0, lag.idle(sums) - before) for sums, before in zip(window.ranks, usual, strict=False)]
    rank = min(range(len(waited)), key=lambda one: waited[one])
    wait = statistics.median(waited[:rank] + waited[rank + 1 :])
    if waited[rank] > OWN * wait:
        return 0.0, rank
    return (wait - waited[rank]) * window.steps, rank


def _where(window: Window, rank: int, seconds: float) -> str:
    others = [other for other in range(len(window.ranks)) if other != rank]
    kind = lag.longest([window], rank, others)
    if lag.beyond_others(window, rank, others, kind) * window.steps >= seconds / 2:
        return f"in {lag.WORK[kind]}"
    return "at nothing that belongs to a step, such as a checkpoint"


def _sum_ms(stalls: list[tuple[float, int, Window]]) -> float:
    return sum(seconds for seconds, *_ in stalls) * 1000
