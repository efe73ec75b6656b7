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
    """Ascending int64 indices of the `count` elements of `flat` that are largest in absolute value, and their values.

    Where fewer than `count` passed the threshold, or were no numbers, the rest are indices without meaning, of value 0.
    `start` shifts the sample, so that successive calls look at other elements. Two steps, after Deep Gradient
    Compression (Lin et al. 2018, section 3.1): 1. A threshold from a strided sample, a little too low. 2. The exact cut
    among the candidates that pass it.
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
    # In NumPy, whose comparison and search are vectorised: torch's take four times as long on a CPU.
    elements, least = flat.numpy(), threshold.numpy()
    places, passed = [], []
    for tile in tiles(flat.numel(), flat.device):
        found = numpy.flatnonzero(numpy.abs(elements[tile]) >= least)
        places.append(found + tile.start)
        # Now, while they are in the cache: fetched later, few as they are, they cost half as much as the search.
        passed.append(elements[tile][found])
    indices, values = numpy.concatenate(places), numpy.concatenate(passed)
    excess = len(indices) - count
    if excess > 0:
        size = numpy.abs(values)
        kept = numpy.flatnonzero(size >= numpy.partition(size, excess)[excess])[:count]
        indices, values = indices[kept], values[kept]
    missing = (0, max(0, -excess))
    return torch.from_numpy(numpy.pad(indices, missing)), torch.from_numpy(numpy.pad(values, missing))


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
    indices = candidates[kept]
    return indices, torch.where(filled[kept], flat[indices], 0)
