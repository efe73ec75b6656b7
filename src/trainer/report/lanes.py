"""Which ranks a timeline shows, and where each bar lies: two tracks a rank, what computes above what travels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.overlap.evidence import Event
from trainer.overlap.meter import COMPUTE
from trainer.report import spans, units
from trainer.report.spans import Bar

# More lanes than this no screen shows at once.
MOST = 16
FEW = 8

# Of a rank's lane, in pixels: its margins, a track, and the strip between the two tracks for what is queued.
MARGIN, TRACK, STRIP = 6, 22, 4


def chosen(work: Sequence[float], most: int = MOST, few: int = FEW) -> list[int]:
    """Ranks to show, in order: all, or of many the one with the least work, the one with the most, and some between."""
    if len(work) <= most:
        return list(range(len(work)))
    order = sorted(range(len(work)), key=lambda rank: work[rank])
    return sorted(order[at * (len(order) - 1) // (few - 1)] for at in range(few))


def names(timeline: Sequence[Sequence[Event]], ranks: Sequence[int]) -> list[str]:
    """What each shown rank is called; in a choice, the extremes are named."""
    work = [spans.work_ms(events) for events in timeline]
    extremes = {}
    if len(ranks) < len(timeline):
        extremes = {min(ranks, key=work.__getitem__): " · fastest", max(ranks, key=work.__getitem__): " · slowest"}
    return [f"rank {rank}{extremes.get(rank, '')}" for rank in ranks]


def height(bars: Sequence[Bar]) -> int:
    """Of one lane, in pixels."""
    return 2 * MARGIN + TRACK + 2 * STRIP + TRACK * _depth(bars)


def placed(bars: Sequence[Bar], ranks: Sequence[int], named: Sequence[str]) -> list[dict[str, Any]]:
    """The shown ranks' bars as rows of a chart: times, `y` to `y2` in lanes, labels and tooltips."""
    lane = {rank: at for at, rank in enumerate(ranks)}
    whole = height(bars)
    below = MARGIN + TRACK + 2 * STRIP
    rows = []
    for bar in bars:
        if bar.rank not in lane:
            continue
        top = below + TRACK * bar.row if bar.kind in ("comm", "moves") else MARGIN
        label, brief = (bar.kind, "") if bar.kind in COMPUTE else ("", "")
        if bar.kind == "comm":
            label, brief = spans.label(bar), units.size(bar.size) if bar.size else ""
        rows.append(
            {
                "kind": bar.kind,
                "start": round(bar.start_ms, 3),
                "end": round(bar.end_ms, 3),
                **_band(lane[bar.rank], top, TRACK - (1 if bar.row else 0), whole),
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


def _depth(bars: Sequence[Bar]) -> int:
    return 1 + max((bar.row for bar in bars), default=0)
