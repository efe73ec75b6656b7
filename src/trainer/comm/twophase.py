"""The two-phase average that non-linear quantisers need: each rank sums one chunk in full precision."""

from collections.abc import Iterator

import torch
from torch import Tensor

from trainer.comm.blocks import Blocks
from trainer.comm.tiles import tiles
from trainer.comm.wire import Wire

# 4 MiB of fp32: long enough to fill a link while the next piece is quantised, short against a bucket.
PIECE = 2**20
# What a piece goes through: until its chunks travel, until its mean travels, and the rest.
STAGES = 3


def average(pending: Tensor, mean: Tensor, blocks: Blocks, wire: Wire) -> None:
    """Write into `mean` the mean over ranks of quantised `pending`; leave in `pending` what the quantisation lost.

    Pieces of it follow one another, each a stage behind the one before: while one is quantised or summed, the chunks of
    the next and the mean of the last are under way, so that the link is never idle between two phases.
    """
    unit = wire.size * blocks.size
    pieces = [
        _average(pending[piece], mean[piece], blocks, wire)
        for piece in tiles(pending.numel(), pending.device, max(1, PIECE // unit) * unit)
    ]
    for turn in range(len(pieces) + STAGES - 1):
        for piece in reversed(pieces[max(0, turn - STAGES + 1) : turn + 1]):
            next(piece, None)


def _average(pending: Tensor, mean: Tensor, blocks: Blocks, wire: Wire) -> Iterator[None]:
    """One piece; pauses where it waits for other ranks.

    1. Pad to as many chunks as ranks, of whole blocks. 2. Quantise every chunk and send the j-th to rank j, which does
    not quantise its own: that part needs no wire. 3. Each rank averages its chunk in full precision, quantises the
    mean, and all ranks gather the means. This is the worker and server error feedback of 1-bit Adam (Tang et al. 2021)
    with one residual: what rank j loses when it quantises the mean, times the number of ranks, is kept in its own
    residual, in the chunk where its own sending loses nothing.
    """
    numel, size, rank = pending.numel(), wire.size, wire.rank
    length = -(-numel // (size * blocks.size)) * blocks.size
    padding = size * length - numel
    rows = (torch.nn.functional.pad(pending, (0, padding)) if padding else pending).view(size, length)
    others = [other for other in range(size) if other != rank]

    messages = torch.empty(size, blocks.message_bytes(length), dtype=torch.uint8, device=rows.device)
    for other in others:
        blocks.encode(rows[other], messages[other])
    chunks = wire.start_swap(messages, "exchange of quantised chunks")
    yield
    received = chunks.wait()
    for other in others:
        blocks.add(received[other], rows[rank])
    message = blocks.encode(rows[rank], messages[rank], parts=size)
    means = wire.start_gather(message, "all-gather of quantised means")
    yield
    result = torch.empty_like(rows) if padding else mean.view(size, length)
    for row, message in zip(result, means.wait(), strict=True):
        blocks.decode(message, row)
    if padding:
        mean.copy_(result.flatten()[:numel])
        pending.copy_(rows.flatten()[:numel])
