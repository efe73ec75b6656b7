"""DDP's buckets: which gradients travel together."""

from __future__ import annotations

from collections.abc import Sequence

MIB = 2**20
# DDP's own caps where none is given: the first bucket is small, so that sending begins early.
OWN_CAPS_MB = (1.0, 25.0)


def bucket_plan(sizes: Sequence[int], cap_mb: float | None) -> list[list[int]]:
    """The numbers of the gradients in each bucket; `sizes` are their bytes, in the order in which they are computed.

    As torch's `compute_bucket_assignment_by_size`: a bucket takes gradients until it holds its cap or more. From its
    second step on DDP has them in the order in which they came in the first.
    """
    caps = list(OWN_CAPS_MB if cap_mb is None else (cap_mb,))
    buckets: list[list[int]] = []
    open_bucket: list[int] = []
    held = 0
    for number, size in enumerate(sizes):
        open_bucket.append(number)
        held += size
        if held >= caps[0] * MIB:
            buckets.append(open_bucket)
            open_bucket, held = [], 0
            if len(caps) > 1:
                caps.pop(0)
    return [*buckets, open_bucket] if open_bucket else buckets
