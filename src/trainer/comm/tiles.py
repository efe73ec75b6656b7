"""Long tensors in pieces."""

from collections.abc import Iterator

import torch

# 512 KiB of fp32, which stays in a core's cache. Whole buckets would go through memory once for every operation, and
# each temporary of that size is fresh memory, whose first touch costs more than the arithmetic.
TILE = 2**17


def tiles(length: int, device: torch.device, step: int = TILE) -> Iterator[slice]:
    """Slices that cover `length` elements: of `step` on a CPU, the whole on a GPU, which wants large kernels."""
    step = step if device.type == "cpu" else max(1, length)
    for start in range(0, length, step):
        yield slice(start, min(length, start + step))
