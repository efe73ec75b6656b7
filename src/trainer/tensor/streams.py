"""Random numbers on the tensor axis: ranks draw alike where they compute alike, and differently where they do not."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Far apart, so that neighbouring seeds of two ranks do not meet.
APART = 1_000_003


class Streams:
    """Within a region each rank draws from a stream of its own.

    1. On entering, one number is drawn from the common stream, alike on all ranks. 2. With the rank it is the seed of
    the region's stream. 3. On leaving, the common stream goes on where it was. So a layer that is computed once more
    draws the same masks, and a checkpoint needs the common stream only.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._common: list[Any] = []

    def enter(self, module: nn.Module) -> None:
        if not module.training:
            return
        seed = int(torch.randint(2**40, ()))
        cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
        self._common.append((torch.get_rng_state(), cuda))
        torch.manual_seed(seed + APART * self.rank)

    def leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if not module.training or not self._common:
            return
        host, cuda = self._common.pop()
        torch.set_rng_state(host)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)
