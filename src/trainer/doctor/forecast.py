"""The step's tail as it would be with other buckets, another hook or another link: the courier's queue, worked out."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainer.doctor.link import Link
from trainer.doctor.recorded import Step, travel_ms
from trainer.tune.simulate import Program, Segment, Work, simulate

# The sizes that are tried: between neighbours the predicted times differ by less than a step's noise.
SIZES_MB = (1, 2, 5, 10, 25, 50, 100)
# Of sizes whose steps are this much alike the largest is taken: fewer transfers, and less that a prediction can miss.
ALIKE = 0.01
# A prediction for the run as it is that misses the measured tail by more than this share of the step is not believed.
OFF = 0.1


class Ready(NamedTuple):
    """A bucket as the backward pass hands it over."""

    size: float
    """bytes of gradient"""
    ready_ms: float


Cost = Callable[[float], float]
"""bytes of gradient of a bucket -> ms from its turn on the wire to its arrival"""


def as_it_is(step: Step) -> list[Ready]:
    """The buckets as they were."""
    return [Ready(bucket.size, bucket.ready_ms) for bucket in step.buckets]


def cut(step: Step, size_mb: float) -> list[Ready]:
    """The buckets that `bucket_cap_mb` = `size_mb` would make.

    Between the moments that are known, those at which the run's own buckets were handed over, gradients are taken to
    become ready evenly.
    """
    known = list(itertools.accumulate((bucket.size for bucket in step.buckets), initial=0.0))
    moments = list(
        itertools.accumulate((bucket.ready_ms for bucket in step.buckets), max, initial=step.backward_start_ms)
    )
    cap = size_mb * 2**20
    count = max(1, math.ceil(step.gradient / cap - 1e-9))
    ends = [min(step.gradient, cap * (number + 1)) for number in range(count)]
    return [Ready(end - start, _between(known, moments, end)) for start, end in itertools.pairwise([0.0, *ends])]


def stretched(step: Step, factor: float) -> tuple[list[Ready], float]:
    """The buckets and the end of a backward pass that lasts `factor` times as long."""
    start = step.backward_start_ms
    buckets = [Ready(bucket.size, start + (bucket.ready_ms - start) * factor) for bucket in step.buckets]
    return buckets, start + step.backward_ms * factor


def tail_ms(buckets: Sequence[Ready], cost: Cost, backward_end_ms: float) -> float:
    """From the end of the backward pass to the last arrival, by the simulation that tune=advise predicts steps with."""
    # The last rank may come to a bucket later than to the next one, which waits behind it anyway.
    moments = list(itertools.accumulate((bucket.ready_ms for bucket in buckets), max))
    spans = [end - start for start, end in itertools.pairwise([moments[0], *moments])]
    segments = [Segment(Work(span), readies=(number,)) for number, span in enumerate(spans)]
    segments.append(Segment(Work(max(0.0, backward_end_ms - moments[-1]))))
    segments.append(Segment(Work(0.0), waits=tuple(range(len(buckets)))))
    step = simulate(Program(segments, [Work(cost(bucket.size)) for bucket in buckets], math.inf), times=1)
    return moments[0] + step.step_s - backward_end_ms


def measured_cost(step: Step, link: Link) -> Cost:
    """What a bucket of the run's own hook costs, encoding included."""
    if step.exchanges is step.buckets:
        share = sum(bucket.sent for bucket in step.buckets) / step.gradient
        return lambda size: link.ms(size * share)
    # What a compressing hook spends beside its exchanges follows the bucket's size.
    per_bucket = len(step.exchanges) / len(step.buckets)
    taken = sum(travel_ms(step.buckets))
    beside = max(0.0, taken - len(step.exchanges) * link.start_ms)
    return lambda size: per_bucket * link.start_ms + size * beside / step.gradient


def limited_by_cap(step: Step, cap_mb: float | None) -> bool:
    """Whether the buckets are as large as `bucket_cap_mb` makes them, and not as single tensors are, which no cap cuts.

    DDP's own caps, for null, are 1 MiB for the first bucket and 25 for the others.
    """
    if cap_mb is None:
        cap_mb = 25 if len(step.buckets) > 1 else 1
    return max(bucket.size for bucket in step.buckets) <= 2 * cap_mb * 2**20


def believable(step: Step, link: Link, step_ms: float) -> bool:
    """Whether the arithmetic gives the run's own tail; what is wrong for the run as it is, is wrong for any."""
    now = tail_ms(as_it_is(step), measured_cost(step, link), step.backward_end_ms)
    return abs(now - step.tail_ms) <= OFF * step_ms


class Size(NamedTuple):
    """A bucket size and what it would bring."""

    size_mb: float
    buckets: int
    tail_ms: float
    gain_ms: float


def best_size(step: Step, link: Link, step_ms: float, exposed_ms: float) -> Size:
    """The bucket size with the shortest predicted step, compared with a prediction for the buckets as they are.

    No more than what is exposed in a typical step can be gained, whatever the recorded one was like.
    """
    cost = measured_cost(step, link)
    now = tail_ms(as_it_is(step), cost, step.backward_end_ms)
    tails = {size: tail_ms(cut(step, size), cost, step.backward_end_ms) for size in SIZES_MB}
    least = min(tails.values())
    size = max(size for size, tail in tails.items() if tail <= least + ALIKE * step_ms)
    return Size(size, len(cut(step, size)), tails[size], min(now - tails[size], exposed_ms))


def _between(known: Sequence[float], moments: Sequence[float], count: float) -> float:
    """The moment at which `count` bytes are ready, on the line through what is known."""
    right = min(bisect.bisect_left(known, count), len(known) - 1)
    if right == 0:
        return moments[0]
    width = known[right] - known[right - 1]
    part = (count - known[right - 1]) / width if width else 1.0
    return moments[right - 1] + min(1.0, part) * (moments[right] - moments[right - 1])
