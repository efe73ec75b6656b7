"""What the training thread and the courier would do under a choice of settings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from trainer.replay_table import Row
from trainer.sync.chunk_plan import plan
from trainer.tune.bucket_plan import MIB, bucket_plan
from trainer.tune.profile import Profile, cost
from trainer.tune.simulate import Program, Segment, Work

# Bytes of an element of a gradient.
DENSE = 4
# Chunks that next_forward's courier has under way; see trainer.sync.by_priority.
LAZY_WINDOW = 2
# Bytes of a chunk of differences; see trainer.sync.differences.
DIFFERENCES_MB = 8.0


class Choice(NamedTuple):
    """Settings that a step's time depends on."""

    comm: str
    sync: str
    bucket_cap_mb: float | None = None
    """null is DDP's own"""
    chunk_mb: float = 4.0
    """of next_forward"""
    period: int = 8
    """steps between averagings of local_sgd"""


class _Tensor(NamedTuple):
    """A parameter, as far as a plan of chunks reads it."""

    nbytes: int
    itemsize: int = DENSE
    dtype: Any = None

    def numel(self) -> int:
        return self.nbytes // self.itemsize


def program(profile: Profile, choice: Choice) -> Program:
    """The step of `profile` under `choice`."""
    return PROGRAMS[choice.sync](profile, choice)._replace(slowdown=profile.slowdown)


def gradient_bytes(profile: Profile) -> int:
    """Bytes of all gradients."""
    return DENSE * sum(row.numel for row in profile.rows)


def sent_bytes(profile: Profile, choice: Choice) -> float:
    """Bytes that a rank sends a step, in the share of the largest bucket that was measured."""
    largest = profile.curves[choice.comm][-1]
    each = gradient_bytes(profile) * largest.sent / largest.size
    return each / choice.period if choice.sync == "local_sgd" else each


class _Buckets(NamedTuple):
    """DDP's buckets."""

    sizes: list[int]
    """bytes of each"""
    forward: Segment
    backward: list[Segment]
    """a segment a layer; its jobs are the buckets that its gradients complete"""


def _buckets(profile: Profile, choice: Choice) -> _Buckets:
    backwards = list(reversed(list(enumerate(profile.rows))))
    order = [(number, size) for number, row in backwards for size in reversed(_sizes(row))]
    buckets = bucket_plan([size for _, size in order], choice.bucket_cap_mb)
    last: dict[int, list[int]] = {}
    for bucket, members in enumerate(buckets):
        last.setdefault(order[members[-1]][0], []).append(bucket)
    return _Buckets(
        [sum(order[one][1] for one in members) for members in buckets],
        Segment(_work(profile, sum(row.forward_ms for row in profile.rows) + profile.rest_s * 1000)),
        [Segment(_work(profile, row.backward_ms), readies=tuple(last.get(number, ()))) for number, row in backwards],
    )


def _strict(profile: Profile, choice: Choice) -> Program:
    """Buckets travel as they become ready, and the optimizer waits for all of them."""
    sizes, forward, backward = _buckets(profile, choice)
    update = Segment(_work(profile, profile.optimizer_s * 1000), waits=tuple(range(len(sizes))))
    return Program([forward, *backward, update], _carried(profile, choice, sizes), profile.cores)


def _partitioned(profile: Profile, choice: Choice) -> Program:
    """As strict, but each bucket's parameters are updated where it lands."""
    sizes, forward, backward = _buckets(profile, choice)
    end = Segment(Work(0.0), waits=tuple(range(len(sizes))))
    return Program([forward, *backward, end], _updated(profile, choice, sizes), profile.cores)


def _delayed(profile: Profile, choice: Choice) -> Program:
    """Buckets travel, copied, as they become ready; an update waits for those of the step before: two steps in turn."""
    sizes, forward, backward = _buckets(profile, choice)
    count = len(sizes)
    update = _work(profile, profile.optimizer_s * 1000)
    jobs = _carried(profile, choice, sizes)
    segments: list[Segment] = []
    for own, before in ((0, count), (count, 0)):
        segments.append(forward)
        for layer in backward:
            copying_ms = sum(sizes[job] for job in layer.readies) / profile.copying * 1000
            segments.append(layer._replace(readies=()))
            segments.append(Segment(_work(profile, copying_ms), readies=tuple(own + job for job in layer.readies)))
        segments.append(Segment(update, waits=tuple(range(before, before + count))))
    return Program(segments, jobs + jobs, profile.cores, steps=2)


def _local_sgd(profile: Profile, choice: Choice) -> Program:
    """Steps of one's own, after a period of which all parameters travel and are waited for."""
    layers_ms = sum(row.forward_ms + row.backward_ms for row in profile.rows)
    step = Segment(_work(profile, layers_ms + (profile.rest_s + profile.optimizer_s) * 1000))
    sizes = [size for size, _ in _chunks(profile, DIFFERENCES_MB, choice.comm)]
    every = tuple(range(len(sizes)))
    segments = [*[step] * (choice.period - 1), step._replace(readies=every), Segment(Work(0.0), waits=every)]
    return Program(segments, _carried(profile, choice, sizes), profile.cores, steps=choice.period)


def _lazy(profile: Profile, choice: Choice) -> Program:
    """Chunks travel the most urgent first, are used where they land, and each layer waits for those that it reads."""
    chunks = _chunks(profile, choice.chunk_mb, choice.comm)
    jobs = _updated(profile, choice, [size for size, _ in chunks])
    forward = [
        Segment(
            _work(profile, row.forward_ms),
            waits=tuple(chunk for chunk, (_, owned) in enumerate(chunks) if number in owned),
        )
        for number, row in enumerate(profile.rows)
    ]
    # A chunk is complete with the gradients of the first of its layers, which come last.
    backward = [
        Segment(
            _work(profile, row.backward_ms),
            readies=tuple(chunk for chunk, (_, owned) in enumerate(chunks) if owned[0] == number),
        )
        for number, row in reversed(list(enumerate(profile.rows)))
    ]
    rest = Segment(_work(profile, profile.rest_s * 1000))
    return Program([rest, *forward, *backward], jobs, profile.cores, urgent=True, window=LAZY_WINDOW)


PROGRAMS = {
    "strict": _strict,
    "partitioned": _partitioned,
    "next_forward": _lazy,
    "delayed": _delayed,
    "local_sgd": _local_sgd,
}
"""the rules of `sync` whose steps are predicted"""
BUCKETED = frozenset({"strict", "partitioned", "delayed"})
"""those under which DDP's buckets travel"""


def _chunks(profile: Profile, chunk_mb: float, comm: str) -> list[tuple[int, list[int]]]:
    """The bytes of each chunk of the parameters, and the layers that it is of."""
    owners = [number for number, row in enumerate(profile.rows) for _ in _sizes(row)]
    tensors = [_Tensor(size) for row in profile.rows for size in _sizes(row)]
    return [
        (
            DENSE * sum(piece.stop - piece.start for piece in chunk),
            sorted({owners[piece.parameter] for piece in chunk}),
        )
        for chunk in plan(tensors, chunk_mb * MIB, comm in profile.divisible)
    ]


def _carried(profile: Profile, choice: Choice, sizes: Iterable[float]) -> list[Work]:
    """What it takes to carry buckets of `sizes` bytes."""
    return [cost(profile.curves[choice.comm], size) for size in sizes]


def _updated(profile: Profile, choice: Choice, sizes: list[int]) -> list[Work]:
    """What it takes to carry buckets, and to update their parameters where they land."""
    whole = sum(sizes)
    jobs = []
    for size, carried in zip(sizes, _carried(profile, choice, sizes), strict=True):
        update_s = profile.optimizer_s * size / whole
        jobs.append(Work(carried.wall_s + update_s, carried.cpu_s + update_s * profile.busy))
    return jobs


def _sizes(row: Row) -> list[int]:
    return [DENSE * math.prod(shape) for shape in row.parameters]


def _work(profile: Profile, ms: float) -> Work:
    return Work(ms / 1000, ms / 1000 * profile.busy)
