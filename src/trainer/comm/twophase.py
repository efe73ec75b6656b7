"""The two-phase average that non-linear quantisers need: each rank sums one chunk in full precision."""

from collections.abc import Callable

import torch
from torch import Tensor

from trainer.comm.wire import Wire

Encode = Callable[[Tensor], Tensor]
"""float rows (n, length) -> uint8 messages (n, bytes)"""
Decode = Callable[[Tensor], Tensor]
"""uint8 messages (n, bytes) -> float rows (n, length)"""


def average(pending: Tensor, unit: int, encode: Encode, decode: Decode, wire: Wire) -> Tensor:
    """The mean over ranks of quantised `pending`; leaves in `pending` what the quantisation lost.

    1. Pad to as many chunks as ranks, of a multiple of `unit` elements. 2. Quantise every chunk and send the j-th to
    rank j, which does not quantise its own: that part needs no wire. 3. Each rank averages its chunk in full precision,
    quantises the mean, and all ranks gather the means. This is the worker and server error feedback of 1-bit Adam (Tang
    et al. 2021) with one residual: what rank j loses when it quantises the mean, times the number of ranks, is kept in
    its own residual, in the chunk where its own sending loses nothing.
    """
    numel, size, rank = pending.numel(), wire.size, wire.rank
    length = -(-numel // (size * unit)) * unit
    padding = size * length - numel
    rows = (torch.nn.functional.pad(pending, (0, padding)) if padding else pending).view(size, length)

    encoded = {j: encode(rows[j : j + 1]) for j in range(size) if j != rank}
    mean = rows[rank].clone()
    if encoded:
        width = next(iter(encoded.values())).shape[1]
        messages = torch.zeros(size, width, dtype=torch.uint8, device=rows.device)
        for j, message in encoded.items():
            messages[j] = message[0]
            rows[j] -= decode(message)[0]
        received = wire.swap(messages, "exchange of quantised chunks")
        for sender in encoded:
            mean += decode(received[sender : sender + 1])[0]
        mean.mul_(1 / size)

    means = decode(wire.gather(encode(mean[None])[0], "all-gather of quantised means"))
    torch.sub(mean, means[rank], out=rows[rank]).mul_(size)
    if padding:
        pending.copy_(rows.flatten()[:numel])
    return means.flatten()[:numel]
