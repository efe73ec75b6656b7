"""Sums and parts of activations over the tensor axis, and how gradients pass back through them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.tensor.axis import Axis

SEQUENCE = 1
"""the dim of activations along which sequences are shared out"""


def part(tensor: Tensor, dim: int, axis: Axis) -> Tensor:
    """This rank's equal part of what all ranks have."""
    return tensor.chunk(axis.size, dim)[axis.rank].contiguous()


def gathered(tensor: Tensor, dim: int, axis: Axis, what: str) -> Tensor:
    """All ranks' equal parts, along `dim`."""
    parts = [torch.empty_like(tensor) for _ in range(axis.size)]
    sent = (axis.size - 1) * tensor.nbytes
    with axis.travels(what, sent), axis.waits(what):
        dist.all_gather(parts, tensor.contiguous(), group=axis.group)
    return torch.cat(parts, dim)


class Total:
    """The sum, in place, of what all ranks have, under way; each sends 2 (n - 1) / n of it."""

    def __init__(self, tensor: Tensor, axis: Axis, what: str) -> None:
        self._tensor, self._axis, self._what = tensor, axis, what
        self._span = axis.begin(what, 2 * (axis.size - 1) / axis.size * tensor.nbytes)
        work = dist.all_reduce(tensor, group=axis.group, async_op=True)
        assert work is not None, "this rank is a member of the group"
        self._work = work

    def wait(self) -> Tensor:
        with self._axis.waits(self._what):
            self._work.wait()
        self._axis.end(self._span)
        return self._tensor


class PartOfTotal:
    """The sum of which each rank keeps its part along the sequence, under way; each sends (n - 1) / n of it."""

    def __init__(self, tensor: Tensor, axis: Axis, what: str) -> None:
        self._axis, self._what = axis, what
        parts = torch.stack(tensor.chunk(axis.size, SEQUENCE)).contiguous()
        self._span = axis.begin(what, (axis.size - 1) / axis.size * tensor.nbytes)
        if tensor.is_cuda:
            self._out = torch.empty_like(parts[0])
            work = dist.reduce_scatter_tensor(self._out, parts, group=axis.group, async_op=True)
            self._to_add = None
        else:
            # Gloo's own reduce-scatter moves twice the bytes.
            self._to_add = torch.empty_like(parts)
            work = dist.all_to_all_single(self._to_add, parts, group=axis.group, async_op=True)
        assert work is not None, "this rank is a member of the group"
        self._work = work

    def wait(self) -> Tensor:
        with self._axis.waits(self._what):
            self._work.wait()
        self._axis.end(self._span)
        return self._out if self._to_add is None else self._to_add.sum(0)


class _Sum(torch.autograd.Function):
    """Parts of a sum become the sum, in place; its gradient is each part's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.mark_dirty(x)
        return Total(x, axis, "sum of outputs").wait()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], None


class _SumOfParts(torch.autograd.Function):
    """Parts of a sum become this rank's part, along the sequence, of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return PartOfTotal(x, axis, "sum of outputs").wait()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gathered(gradients[0], SEQUENCE, ctx.axis, "gradients of sequences"), None


class _Part(torch.autograd.Function):
    """The whole, which all ranks have, becomes this rank's part along the sequence."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return part(x, SEQUENCE, axis)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gathered(gradients[0], SEQUENCE, ctx.axis, "gradients of sequences"), None


class _Whole(torch.autograd.Function):
    """This rank's part along the sequence becomes the whole, with which all ranks go on alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return gathered(x, SEQUENCE, axis, "sequences")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return part(gradients[0], SEQUENCE, ctx.axis), None


def summed(x: Tensor, axis: Axis) -> Tensor:
    """The sum of what all ranks have, in the place of `x`, which nothing else may read."""
    return _Sum.apply(x.contiguous(), axis)


def sum_of_parts(x: Tensor, axis: Axis) -> Tensor:
    """This rank's part, along the sequence, of the sum of what all ranks have."""
    return _SumOfParts.apply(x, axis)


def shared_out(x: Tensor, axis: Axis) -> Tensor:
    """This rank's part along the sequence."""
    return _Part.apply(x, axis)


def whole(x: Tensor, axis: Axis) -> Tensor:
    """The whole of what is shared out along the sequence."""
    return _Whole.apply(x, axis)
