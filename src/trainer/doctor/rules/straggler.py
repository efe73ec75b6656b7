"""One rank is slower than the others in every step, and they wait for it."""

from __future__ import annotations

import statistics

from trainer.doctor import lag
from trainer.doctor.finding import Finding
from trainer.doctor.part import parts
from trainer.doctor.typical import settled
from trainer.doctor.wording import ms, share
from trainer.overlap.evidence import Evidence

# Ranks with the same work differ by some percent, more on a shared machine.
SLOWER = 0.10
# A straggler is behind in nearly every window, by half of its usual excess at least; noise takes turns.
MOST, HALF = 0.8, 0.5
# In fewer windows than this noise can look like a habit.
WINDOWS = 4


def look(evidence: Evidence) -> Finding | None:
    windows = lag.complete(settled(evidence))
    if len(windows) < WINDOWS or len({len(window.ranks) for window in windows}) > 1:
        return None
    # Ranks of another stage of a pipeline have other work; where there are no replicas, nobody has the same.
    others = {rank: [one for one in part if one != rank] for part in parts(evidence) for rank in part}
    excess = {
        rank: [lag.beyond_others(window, rank, them) for window in windows] for rank, them in others.items() if them
    }
    if not excess:
        return None
    rank = max(excess, key=lambda one: statistics.median(excess[one]))
    beyond = statistics.median(excess[rank])
    steady = sum(one >= HALF * beyond for one in excess[rank]) >= MOST * len(windows)
    typical = statistics.median(lag.busy(window.ranks[one]) for window in windows for one in (rank, *others[rank]))
    waited = statistics.median(lag.others_wait(window, rank, others[rank]) for window in windows)
    # Others that are waited for elsewhere, or whose wait is hidden, lose nothing by this rank.
    if beyond < SLOWER * typical or not steady or waited < HALF * beyond:
        return None
    kind = lag.longest(windows, rank, others[rank])
    return Finding(
        f"All wait for {lag.name(evidence, rank)}, which is slower",
        f"It works {ms(beyond * 1000)} longer a step than the median of the others, which is {share(beyond / typical)}"
        f" of a rank's work; the largest part of that is {lag.WORK[kind]}. The others wait {ms(waited * 1000)} a step"
        f" for it.",
        f"data.workers={_more_workers(evidence)}" if kind == "data" else lag.look_at(evidence, rank),
        min(beyond, waited) * 1000,
    )


def _more_workers(evidence: Evidence) -> int:
    present = evidence.option("data.workers")
    return 2 * present if isinstance(present, int) and present > 0 else 2
