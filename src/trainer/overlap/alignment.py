"""The clocks of ranks that hold different parts of a model, told by the messages that stages send each other."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trainer.overlap import stages
from trainer.overlap.meter import AWAITS, SENDS, PastStep

# Of a row of `messages`: which message it is, and when.
KEY, MOMENT = 4, 4


def messages(window: Sequence[PastStep]) -> Tensor:
    """Messages between stages that this rank sent or awaited in `window`, (messages, 5).

    Step, lane (of SENDS or AWAITS), receiving stage, micro-batch, and the moment in seconds of the host's clock at
    which it was handed over, or had been waited for.
    """
    lanes = (*SENDS, *AWAITS)
    rows = []
    for step in window:
        for span in step.spans:
            sent = span.lane in SENDS
            about = (stages.message if sent else stages.piece)(span.name)
            # What is left of a message of the step before has no size.
            if span.lane not in lanes or about is None or (sent and not span.size):
                continue
            moment = step.moment + (span.start if sent else span.end)
            rows.append([step.number, lanes.index(span.lane), about.stage, about.microbatch, moment])
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, KEY + 1)


def offset(one: Tensor, other: Tensor) -> float | None:
    """Seconds by which the clock of `other` is ahead of that of `one`, from the `messages` of both.

    The fastest message each way is taken to have needed the same time, as NTP does: what an awaited message seems to
    take is that time and the offset in one direction, and that time less the offset in the other. None where the two
    did not send and await in both directions.
    """
    there, back = _least(one, other), _least(other, one)
    return None if there is None or back is None else (there - back) / 2


def across(
    parts: Sequence[Sequence[int]], clocks: Sequence[int], ahead: Tensor, sent: Callable[[], Sequence[Tensor]]
) -> Tensor:
    """`ahead`, each rank's offset from the first rank of its part, as offsets from the first rank of all, in seconds.

    `parts` are the ranks of each part, in the order of a pipeline; `clocks` names each rank's clock. Parts with ranks
    on one machine are joined there. One without is joined to the part before it by `sent`, the `messages` of all ranks,
    which is called only then; the n-th ranks of two parts are in one pipeline. Without messages it stays as it is.
    """
    by, known, everyone = ahead.tolist(), list(parts[0]), None
    for before, members in itertools.pairwise(parts):
        shift = next((by[a] - by[b] for b in members for a in known if clocks[a] == clocks[b]), None)
        if shift is None:
            everyone = sent() if everyone is None else everyone
            shifts = [
                by[a] - by[b] + found
                for a, b in zip(before, members, strict=False)
                if (found := offset(everyone[a], everyone[b])) is not None
            ]
            shift = statistics.median(shifts) if shifts else 0.0
        for rank in members:
            by[rank] += shift
        known += members
    return torch.tensor(by, dtype=torch.float64)


def _least(sender: Tensor, receiver: Tensor) -> float | None:
    """The shortest time from a message's sending to the end of the wait for it, by the two clocks."""
    awaited = {(row[0], row[1] - len(SENDS), *row[2:KEY]): row[MOMENT] for row in receiver.tolist()}
    taken = [awaited[key] - row[MOMENT] for row in sender.tolist() if (key := tuple(row[:KEY])) in awaited]
    return min(taken, default=None)
