"""What a rank waits for its peers: a bucket moves only when the last rank has come to it."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainer.overlap.meter import PastStep


def clock_name() -> int:
    """A number that two processes share only if they read the same monotonic clock: that of one boot of one machine."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    name = boot.read_text() if boot.exists() else platform.node()
    # Small enough to be exact in a float64.
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16)


def buckets(window: Sequence[PastStep]) -> Tensor:
    """Number, start and end of all buckets of the steps in `window`, (buckets, 3) in seconds of the host's clock."""
    times = [(number, step.moment + start, step.moment + end) for step in window for number, start, end in step.buckets]
    return torch.tensor(times, dtype=torch.float64).reshape(-1, 3)


def common(ranks: Sequence[Tensor]) -> Tensor:
    """Starts and ends of the buckets that all ranks have measured, (ranks, buckets, 2).

    The ranks are those that hold the same part of the model: others have other buckets under the same numbers.
    """
    numbers = set.intersection(*({int(number) for number in rank[:, 0]} for rank in ranks))
    return torch.stack([rank[[int(number) in numbers for number in rank[:, 0]], 1:] for rank in ranks])


def offsets(times: Tensor, clocks: Sequence[int]) -> Tensor:
    """Seconds by which each rank's clock is ahead of the first rank's, (ranks,); `times` is (ranks, buckets, 2).

    All ranks leave a collective at nearly the same time, so the median difference of the ends is that of the clocks.
    """
    ends = times[:, :, 1]
    ahead = (ends - ends[0]).median(dim=1).values if ends.shape[1] else ends.new_zeros(len(ends))
    return torch.where(torch.tensor([clock == clocks[0] for clock in clocks]), 0.0, ahead)


def waits(times: Tensor, ahead: Tensor) -> Tensor:
    """Seconds that each rank spent on each bucket before the last rank came to it, (ranks, buckets).

    A rank comes to a bucket when it has submitted it and the bucket before it has arrived: buckets travel one by one.
    """
    starts, ends = (times - ahead[:, None, None]).unbind(dim=2)
    before = torch.cat([torch.full_like(ends[:, :1], -torch.inf), ends[:, :-1]], dim=1)
    came = torch.maximum(starts, torch.minimum(before, ends))
    return torch.minimum(came.max(dim=0).values, ends).sub(came).clamp_(min=0)
