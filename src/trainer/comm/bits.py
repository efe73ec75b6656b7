"""Signs as bits: eight to a byte, and back by a table."""

import functools

import numpy
import torch
from torch import Tensor


def negative(values: Tensor) -> Tensor:
    """The sign bits of `values`, as a bool tensor."""
    # torch's comparisons of floats are not vectorised on a CPU and take seven times as long as NumPy's.
    return values.signbit() if values.is_cuda else torch.from_numpy(numpy.signbit(values.numpy()))


def pack(flags: Tensor) -> Tensor:
    """A bool tensor (…, 8 n) as uint8 (…, n), the first element in the highest bit."""
    if flags.is_cuda:
        return (flags.view(*flags.shape[:-1], -1, 8) * _weights(flags.device)).sum(-1, dtype=torch.uint8)
    # NumPy's loop is vectorised; the product above takes ten times as long on a CPU.
    return torch.from_numpy(numpy.packbits(flags.numpy(), axis=-1))


def signs(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """+1 for a set bit and -1 for another, (…, 8 n) of `dtype`, for packed bits (…, n)."""
    table = _table(dtype, packed.device)
    if packed.is_cuda:
        return table.index_select(0, packed.flatten().int()).view(*packed.shape[:-1], -1)
    # NumPy looks up twice as fast on a CPU.
    return torch.from_numpy(table.numpy().take(packed.numpy(), axis=0)).view(*packed.shape[:-1], -1)


@functools.cache
def _weights(device: torch.device) -> Tensor:
    """What each of eight bits is worth in a byte."""
    return torch.tensor([128, 64, 32, 16, 8, 4, 2, 1], dtype=torch.uint8, device=device)


@functools.cache
def _table(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The eight signs of every byte, (256, 8)."""
    bits = torch.arange(256)[:, None] >> torch.arange(7, -1, -1) & 1
    return (bits * 2 - 1).to(dtype=dtype, device=device)
