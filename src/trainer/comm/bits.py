"""Signs as bits: eight to a byte, and back by a table."""

import functools

import numpy
import torch
from torch import Tensor


def pack(positive: Tensor) -> Tensor:
    """A bool tensor (…, 8 n) as uint8 (…, n), the first element in the highest bit."""
    if positive.is_cuda:
        return (positive.view(*positive.shape[:-1], -1, 8) * _weights(positive.device)).sum(-1, dtype=torch.uint8)
    # NumPy's loop is vectorised; the product above takes ten times as long on a CPU.
    return torch.from_numpy(numpy.packbits(positive.numpy(), axis=-1))


def signs(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """+1 and -1, (…, 8 n) of `dtype`, for packed bits (…, n)."""
    table = _table(dtype, packed.device)
    return table.index_select(0, packed.flatten().int()).view(*packed.shape[:-1], -1)


@functools.cache
def _weights(device: torch.device) -> Tensor:
    """What each of eight bits is worth in a byte."""
    return torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=device)


@functools.cache
def _table(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The eight signs of every byte, (256, 8)."""
    bits = torch.arange(256)[:, None] >> torch.arange(7, -1, -1) & 1
    return (bits * 2 - 1).to(dtype=dtype, device=device)
