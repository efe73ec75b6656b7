"""Selection of the largest elements of a long tensor without sorting it."""

import math

import numpy
import torch
from torch import Tensor

from trainer.comm.tiles import tiles

# Elements of the sample that are expected above the threshold: their number varies by some 6 %.
EXPECTED = 256
# The threshold is set for so many times the wanted number, and room is kept for twice as many again.
MARGIN, ROOM = 1.2, 2.0


def largest(flat: Tensor, count: int, start: int) -> tuple[Tensor, Tensor]:
    """Ascending int64 indices of `count` of the elements of `flat` that are largest in absolute value, and a bool mask.

    The mask is False where fewer elements than `count` passed the threshold, or their absolute value is no number; such
    an index means nothing. `start` shifts the sample, so that successive calls look at other elements. Two steps, after
    Deep Gradient Compression (Lin et al. 2018, section 3.1): 1. A threshold from a strided sample, a little too low.
    2. The exact cut among the candidates that pass it.
    """
    wanted = min(flat.numel(), math.ceil(count * MARGIN))
    threshold = _threshold(flat, wanted, start)
    select = _select_unseen if flat.is_cuda else _select
    return select(flat, threshold, count)


def _threshold(flat: Tensor, wanted: int, start: int) -> Tensor:
    """A value that about `wanted` elements pass, and exact zeros never."""
    least = torch.full((), torch.finfo(flat.dtype).tiny, dtype=flat.dtype, device=flat.device)
    if wanted == flat.numel():
        return least
    stride = max(1, int(wanted / EXPECTED))
    sample = flat[start % stride :: stride].abs()
    rank = min(sample.numel(), max(1, round(sample.numel() * wanted / flat.numel())))
    return torch.maximum(least, sample.kthvalue(sample.numel() - rank + 1).values)


def _select(flat: Tensor, threshold: Tensor, count: int) -> tuple[Tensor, Tensor]:
    # NumPy's search is vectorised; torch's takes four times as long on a CPU.
    candidates = torch.cat(
        [
            torch.from_numpy(numpy.flatnonzero((flat[tile].abs() >= threshold).numpy())).add_(tile.start)
            for tile in tiles(flat.numel(), flat.device)
        ]
    )
    if len(candidates) > count:
        size = flat[candidates].abs()
        cut = size.kthvalue(len(candidates) - count + 1).values
        candidates = candidates[size >= cut][:count]
    missing = count - len(candidates)
    real = torch.arange(count) < len(candidates)
    return torch.nn.functional.pad(candidates, (0, missing)), real


def _select_unseen(flat: Tensor, threshold: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same in sizes that are known beforehand, so that the host need not wait for the GPU to learn them."""
    magnitude = flat.abs()
    room = min(flat.numel(), math.ceil(count * ROOM))
    passed = magnitude >= threshold
    candidates = torch.nonzero_static(passed, size=room, fill_value=0).squeeze(1)
    filled = torch.arange(room, device=flat.device) < torch.count_nonzero(passed)
    size = torch.where(filled, magnitude[candidates], -1.0)
    cut = size.kthvalue(room - count + 1).values
    kept = torch.nonzero_static(size >= cut, size=count, fill_value=0).squeeze(1)
    return candidates[kept], filled[kept]
