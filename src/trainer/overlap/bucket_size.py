"""How much gradient to send at once, worked out from what the link does."""

from __future__ import annotations

import math
from typing import NamedTuple

MIB = 2**20
# Below, hooks and kernels cost more than the link; above, DDP would wait for most models' whole gradient.
SMALLEST_MB, LARGEST_MB = 1.0, 100.0


class BucketSize(NamedTuple):
    """A size for `bucket_cap_mb`, and the arithmetic in words."""

    mb: float
    why: str


def bucket_size(alpha_s: float, bytes_per_s: float, gradient_bytes: float, ranks: int) -> BucketSize:
    """The bucket that makes the least of what buckets cost, over a link where b bytes take alpha + b / beta seconds.

    A ring all-reduce of b bytes over n ranks sends 2 (n - 1) messages of b / n bytes one after another, so it takes
    2 (n - 1) (alpha + b / (n beta)). A gradient of G bytes in buckets of b bytes pays in two ways. It starts G / b
    times, which costs (G / b) 2 (n - 1) alpha in all. And its last bucket is complete only when the backward pass ends,
    so nothing hides its bytes, which take 2 (n - 1) b / (n beta). The sum f(b) has its minimum where both are equal:

        b = sqrt(n alpha beta G)

    It grows with alpha and beta: a link that starts slowly or carries fast wants larger buckets. It is kept between 1
    and 100 MiB, and no bucket is larger than the gradient. A hook that sends
    fewer bytes does well with larger ones.
    """
    best = math.sqrt(ranks * alpha_s * bytes_per_s * gradient_bytes) / MIB
    # Three digits are more than alpha is worth.
    kept = float(f"{max(SMALLEST_MB, min(best, LARGEST_MB, gradient_bytes / MIB)):.3g}")
    why = (
        f"sqrt({ranks} ranks x {alpha_s * 1e6:.3g} us x {bytes_per_s / 1e9:.3g} GB/s x"
        f" {gradient_bytes / MIB:.3g} MiB) = {best:.3g} MiB"
    )
    return BucketSize(kept, why if math.isclose(kept, best, rel_tol=0.01) else f"{why}, kept at {kept:g} MiB")
