"""Random elements travel, the same ones on all ranks, so that no index does."""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from trainer.comm.compressed import Codec, Compressed, Plain
from trainer.comm.easing import larger_shares
from trainer.comm.layout import Part
from trainer.comm.wire import Wire


class RandomK(Compressed):
    """Random-k sparsification with a shared seed and error feedback (Stich et al. 2018)."""

    ratio: Annotated[float, Field(gt=0, le=1)] = 0.1
    """the share of elements that travel"""
    seed: Annotated[int, Field(ge=0)] = 0
    """the seed of the choice, the same on all ranks"""

    def words(self) -> str:
        return f"ratio {self.ratio:g}"

    def degrees(self) -> list[tuple[str, Codec]]:
        return [*larger_shares(self, self.ratio), *super().degrees()]

    def codec(self) -> Codec:
        return _RandomK(self)


class _RandomK(Plain):
    def __init__(self, spec: RandomK) -> None:
        self.spec = spec

    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
        """1. One element of each of k equal strata, drawn from (seed, step). 2. All-reduce their values."""
        numel = pending.numel()
        count = max(1, math.ceil(self.spec.ratio * numel))
        generator = torch.Generator(pending.device).manual_seed(hash((self.spec.seed, step, numel)) & (2**62 - 1))
        drawn = torch.rand(count, generator=generator, dtype=torch.float64, device=pending.device)
        strata = torch.arange(count, device=pending.device)
        indices = ((strata + drawn) * (numel / count)).long().clamp_(max=numel - 1)
        values = pending[indices]
        pending[indices] = 0
        mean.zero_()[indices] = wire.average_(values, "average of random elements")
