"""Selection of the largest elements of a long tensor without sorting it."""

import math

import torch
from torch import Tensor

# Elements of the sample that are expected above the threshold: their number varies by some 6 %.
EXPECTED = 256
# The threshold is set for so many times the wanted number, and room is kept for twice as many again.
MARGIN, ROOM = 1.2, 2.0


def largest(flat: Tensor, count: int, start: int) -> tuple[Tensor, Tensor]:
    """Ascending int64 indices of `count` of the elements of `flat` that are largest in absolute value, and a bool mask.

    The mask is False where fewer elements than `count` passed the threshold, or their absolute value is no number; such
    an index means nothing. `start` shifts the sample, so that successive calls look at other elements. Two steps, after
    Deep Gradient Compression (Lin et al. 2018, section 3.1): 1. A threshold from a strided sample, a little too low.
    2. The exact cut among the candidates that pass it. Nothing makes the host wait for a GPU.
    """
    numel = flat.numel()
    magnitude = flat.abs()
    wanted = min(numel, math.ceil(count * MARGIN))
    room = min(numel, math.ceil(count * ROOM))
    stride = max(1, int(wanted / EXPECTED))
    sample = magnitude[start % stride :: stride]
    rank = min(sample.numel(), max(1, round(sample.numel() * wanted / numel)))
    # The smallest positive threshold keeps exact zeros from being sent.
    threshold = torch.full((), torch.finfo(flat.dtype).tiny, dtype=flat.dtype, device=flat.device)
    if wanted < numel:
        threshold = torch.maximum(threshold, sample.kthvalue(sample.numel() - rank + 1).values)
    passed = magnitude >= threshold
    candidates = torch.nonzero_static(passed, size=room, fill_value=0).squeeze(1)
    filled = torch.arange(room, device=flat.device) < passed.sum()
    size = torch.where(filled, magnitude[candidates], -1.0)
    cut = size.kthvalue(room - count + 1).values
    kept = torch.nonzero_static(size >= cut, size=count, fill_value=0).squeeze(1)
    return candidates[kept], filled[kept]
