"""Which ranks a timeline shows, and where each bar lies: two tracks a rank, what computes above what travels.

In a pipeline a third one is below, with what a rank sends to its neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from trainer.overlap import stages
from trainer.overlap.evidence import Event
from trainer.overlap.meter import COMPUTE
from trainer.report import spans, units
from trainer.report.spans import Bar

# More lanes than this no screen shows at once.
MOST = 16
FEW = 8

# Of a rank's lane, in pixels: its margins, a track, and the strip between the two tracks for what is queued.
MARGIN, TRACK, STRIP = 6, 22, 4
# A row of messages between stages is thinner: of many small ones no more is to be seen.
SEND = 13


def chosen(work: Sequence[float], most: int = MOST, few: int = FEW) -> list[int]:
    """Ranks to show, in order: all, or of many the one with the least work, the one with the most, and some between."""
    if len(work) <= most:
        return list(range(len(work)))
    order = sorted(range(len(work)), key=lambda rank: work[rank])
    return sorted(order[at * (len(order) - 1) // (few - 1)] for at in range(few))


def shown(timeline: Sequence[Sequence[Event]]) -> list[int]:
    """The ranks of a timeline to show, in their order on the page: all or a choice, a pipeline's below each other.

    Of too many pipelines, that with the most work is shown.
    """
    work, parts = [spans.work_ms(events) for events in timeline], spans.held(timeline)
    if not any(parts):
        return chosen(work)
    holding = [[rank for rank, part in enumerate(parts) if part == one] for one in sorted(set(parts))]
    pipelines = [[rank for rank in ranks if rank is not None] for ranks in itertools.zip_longest(*holding)]
    if len(work) > MOST:
        pipelines = [max(pipelines, key=lambda ranks: sum(work[rank] for rank in ranks))]
    ranks = list(itertools.chain(*pipelines))
    # Of a single pipeline that is too long, stages from the first to the last.
    return [ranks[place] for place in chosen([float(place) for place in range(len(ranks))])]


def called(rank: int, held: Sequence[int]) -> str:
    """rank 2 · stage 1, where ranks have stages of a pipeline."""
    if not held:
        return f"rank {rank}"
    return f"rank {rank} · stage{'s' * (len(held) > 1)} {', '.join(map(str, held))}"


def names(timeline: Sequence[Sequence[Event]], ranks: Sequence[int]) -> list[str]:
    """What each shown rank is called; in a choice, the extremes are named."""
    work, parts = [spans.work_ms(events) for events in timeline], spans.held(timeline)
    extremes = {}
    if len(ranks) < len(timeline) and not any(parts):
        extremes = {min(ranks, key=work.__getitem__): " · fastest", max(ranks, key=work.__getitem__): " · slowest"}
    return [f"{called(rank, parts[rank])}{extremes.get(rank, '')}" for rank in ranks]


def height(bars: Sequence[Bar]) -> int:
    """Of one lane, in pixels."""
    sends = _depth(bars, "send")
    return 2 * MARGIN + TRACK + 2 * STRIP + _buckets_px(bars) + (STRIP + SEND * sends if sends else 0)


def placed(bars: Sequence[Bar], ranks: Sequence[int], named: Sequence[str]) -> list[dict[str, Any]]:
    """The shown ranks' bars as rows of a chart: times, `y` to `y2` in lanes, labels and tooltips."""
    lane = {rank: at for at, rank in enumerate(ranks)}
    whole = height(bars)
    below = MARGIN + TRACK + 2 * STRIP
    lowest = below + _buckets_px(bars) + STRIP
    several = {rank for rank in ranks if len(stages.held(bar.name for bar in bars if bar.rank == rank)) > 1}
    rows = []
    for bar in bars:
        if bar.rank not in lane:
            continue
        top, tall = MARGIN, TRACK
        if bar.kind in ("comm", "moves"):
            top, tall = below + TRACK * bar.row, TRACK - (1 if bar.row else 0)
        elif bar.kind == "send":
            top, tall = lowest + SEND * bar.row, SEND - 1
        label, brief = _labels(bar, bar.rank in several)
        rows.append(
            {
                "kind": bar.kind,
                "start": round(bar.start_ms, 3),
                "end": round(bar.end_ms, 3),
                **_band(lane[bar.rank], top, tall, whole),
                "label": label,
                "brief": brief,
                "said": f"{named[lane[bar.rank]]}: {spans.said(bar)}",
            }
        )
    return rows


def queues(bars: Sequence[Bar], ranks: Sequence[int]) -> list[dict[str, float]]:
    """Strips for the times in which buckets stand behind others, a strip a bucket."""
    whole = height(bars)
    return [
        {
            "start": round(bar.start_ms - bar.queued_ms, 3),
            "end": round(bar.start_ms, 3),
            **_band(ranks.index(bar.rank), MARGIN + TRACK + STRIP // 2, STRIP, whole),
        }
        for bar in bars
        if bar.kind == "comm" and bar.rank in ranks and bar.queued_ms > 0
    ]


def _band(lane: int, top: int, tall: int, whole: int) -> dict[str, float]:
    return {"y": round(lane + top / whole, 4), "y2": round(lane + (top + tall) / whole, 4)}


def _labels(bar: Bar, several: bool) -> tuple[str, str]:
    """What stands in a bar, and what does where that does not fit; `several` says that its rank has several stages."""
    if bar.kind == "comm":
        return spans.label(bar), units.size(bar.size) if bar.size else ""
    brief = spans.brief(bar)
    if bar.kind == "send":
        what = bar.name.partition(" ")[0]
        return (f"{what} {brief}", brief) if brief else (bar.name, "")
    about = stages.piece(bar.name)
    if brief and about is not None:
        return (f"{brief} s{about.stage}", brief) if several else (brief, "")
    return (bar.kind, "") if bar.kind in COMPUTE else ("", "")


def _buckets_px(bars: Sequence[Bar]) -> int:
    """The place of buckets: none in a pipeline without replicas."""
    return TRACK * (_depth(bars, "comm") or (0 if _depth(bars, "send") else 1))


def _depth(bars: Sequence[Bar], kind: str) -> int:
    return max((1 + bar.row for bar in bars if bar.kind == kind), default=0)
