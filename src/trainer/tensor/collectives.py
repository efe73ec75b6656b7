"""Sums and parts of activations over the tensor axis, and how gradients pass back through them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

SEQUENCE = 1
"""the dim of activations along which sequences are shared out"""


def part(tensor: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """This rank's equal part of what all ranks have."""
    return tensor.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)].contiguous()


def gathered(tensor: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """All ranks' equal parts, along `dim`."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, tensor.contiguous(), group=group)
    return torch.cat(parts, dim)


def begin_sum(tensor: Tensor, group: dist.ProcessGroup) -> dist.Work:
    """Begin to add up, in place, what all ranks have; it is there after `wait`."""
    work = dist.all_reduce(tensor, group=group, async_op=True)
    assert work is not None, "this rank is a member of the group"
    return work


class PartialSum:
    """A sum over ranks of which each keeps its part along the sequence, under way."""

    def __init__(self, tensor: Tensor, group: dist.ProcessGroup) -> None:
        size = dist.get_world_size(group)
        parts = torch.stack(tensor.chunk(size, SEQUENCE)).contiguous()
        if tensor.is_cuda:
            self._out = torch.empty_like(parts[0])
            work = dist.reduce_scatter_tensor(self._out, parts, group=group, async_op=True)
            self._to_add = None
        else:
            # Gloo's own reduce-scatter moves twice the bytes.
            self._to_add = torch.empty_like(parts)
            work = dist.all_to_all_single(self._to_add, parts, group=group, async_op=True)
        assert work is not None, "this rank is a member of the group"
        self._work = work

    def wait(self) -> Tensor:
        self._work.wait()
        return self._out if self._to_add is None else self._to_add.sum(0)


class _Sum(torch.autograd.Function):
    """Parts of a sum become the sum; its gradient is each part's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        x = x.contiguous().clone()
        begin_sum(x, group).wait()
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], None


class _SumOfParts(torch.autograd.Function):
    """Parts of a sum become this rank's part, along the sequence, of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return PartialSum(x, group).wait()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gathered(gradients[0], SEQUENCE, ctx.group), None


class _Part(torch.autograd.Function):
    """The whole, which all ranks have, becomes this rank's part along the sequence."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return part(x, SEQUENCE, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gathered(gradients[0], SEQUENCE, ctx.group), None


class _Whole(torch.autograd.Function):
    """This rank's part along the sequence becomes the whole, with which all ranks go on alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return gathered(x, SEQUENCE, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return part(gradients[0], SEQUENCE, ctx.group), None


def summed(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The sum of what all ranks have."""
    return _Sum.apply(x, group)


def sum_of_parts(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """This rank's part, along the sequence, of the sum of what all ranks have."""
    return _SumOfParts.apply(x, group)


def shared_out(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """This rank's part along the sequence."""
    return _Part.apply(x, group)


def whole(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The whole of what is shared out along the sequence."""
    return _Whole.apply(x, group)
