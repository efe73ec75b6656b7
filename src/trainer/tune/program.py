"""What the training thread and the courier would do under a choice of settings."""

from __future__ import annotations

import math
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


class Choice(NamedTuple):
    """Settings that a step's time depends on."""

    comm: str
    sync: str
    bucket_cap_mb: float | None = None
    """null is DDP's own"""
    chunk_mb: float = 4.0
    """of next_forward"""


class _Tensor(NamedTuple):
    """A parameter, as far as a plan of chunks reads it."""

    nbytes: int
    itemsize: int = DENSE
    dtype: Any = None

    def numel(self) -> int:
        return self.nbytes // self.itemsize


def program(profile: Profile, choice: Choice) -> Program:
    """The step of `profile` under `choice`."""
    return _lazy(profile, choice) if choice.sync == "next_forward" else _strict(profile, choice)


def gradient_bytes(profile: Profile) -> int:
    """Bytes of all gradients."""
    return DENSE * sum(row.numel for row in profile.rows)


def _strict(profile: Profile, choice: Choice) -> Program:
    """Buckets travel as they become ready, and the optimizer waits for all of them."""
    backwards = list(reversed(list(enumerate(profile.rows))))
    order = [(number, size) for number, row in backwards for size in reversed(_sizes(row))]
    buckets = bucket_plan([size for _, size in order], choice.bucket_cap_mb)
    last: dict[int, list[int]] = {}
    for bucket, members in enumerate(buckets):
        last.setdefault(order[members[-1]][0], []).append(bucket)
    jobs = [cost(profile.curves[choice.comm], sum(order[one][1] for one in members)) for members in buckets]
    backward = [
        Segment(_work(profile, row.backward_ms), readies=tuple(last.get(number, ()))) for number, row in backwards
    ]
    forward = [Segment(_work(profile, sum(row.forward_ms for row in profile.rows) + profile.rest_s * 1000))]
    update = Segment(_work(profile, profile.optimizer_s * 1000), waits=tuple(range(len(jobs))))
    return Program([*forward, *backward, update], jobs, profile.cores)


def _lazy(profile: Profile, choice: Choice) -> Program:
    """Chunks travel the most urgent first, are used where they land, and each layer waits for those that it reads."""
    owners = [number for number, row in enumerate(profile.rows) for _ in _sizes(row)]
    tensors = [_Tensor(size) for row in profile.rows for size in _sizes(row)]
    chunks = plan(tensors, choice.chunk_mb * MIB, choice.comm in profile.divisible)
    sizes = [DENSE * sum(piece.stop - piece.start for piece in chunk) for chunk in chunks]
    whole = sum(sizes)
    jobs = []
    for size in sizes:
        carried, update_s = cost(profile.curves[choice.comm], size), profile.optimizer_s * size / whole
        jobs.append(Work(carried.wall_s + update_s, carried.cpu_s + update_s * profile.busy))
    layers = [sorted({owners[piece.parameter] for piece in chunk}) for chunk in chunks]
    forward = [
        Segment(
            _work(profile, row.forward_ms),
            waits=tuple(chunk for chunk, owned in enumerate(layers) if number in owned),
        )
        for number, row in enumerate(profile.rows)
    ]
    # A chunk is complete with the gradients of the first of its layers, which come last.
    backward = [
        Segment(
            _work(profile, row.backward_ms),
            readies=tuple(chunk for chunk, owned in enumerate(layers) if owned[0] == number),
        )
        for number, row in reversed(list(enumerate(profile.rows)))
    ]
    rest = Segment(_work(profile, profile.rest_s * 1000))
    return Program([rest, *forward, *backward], jobs, profile.cores, urgent=True, window=LAZY_WINDOW)


def _sizes(row: Row) -> list[int]:
    return [DENSE * math.prod(shape) for shape in row.parameters]


def _work(profile: Profile, ms: float) -> Work:
    return Work(ms / 1000, ms / 1000 * profile.busy)
