"""A clock around any communication hook."""

# No future annotations: DDP inspects the annotation of `bucket` and refuses a string.

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from trainer.overlap.meter import Meter


class Timed(NamedTuple):
    """State of `timed_hook`: the hook it wraps with that hook's state, and what tells the bytes it has sent.

    `bytes_sent` is called with a bucket's bytes when that bucket has arrived.
    """

    meter: Meter
    state: Any
    hook: Callable
    bytes_sent: Callable[[int], float]


def timed_hook(timed: Timed, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Run the wrapped hook; its span ends when its future does, on the future's own stream."""
    meter = timed.meter
    nbytes = bucket.buffer().nbytes
    span = meter.begin("comm", f"bucket {bucket.index()}")
    span.size = nbytes

    def end(_: torch.futures.Future) -> None:
        span.bytes = timed.bytes_sent(nbytes)
        span.end = meter.clock.mark()

    future = timed.hook(timed.state, bucket)
    future.add_done_callback(end)
    if bucket.is_last():
        meter.gradients_ready()
    return future
