"""Layers of which each tensor rank has a part; their parameters keep their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainer.tensor import collectives
from trainer.tensor.axis import Axis

Push = Callable[[Sequence[nn.Parameter], Callable[[], tuple[Tensor, ...]]], None]


class _Late(NamedTuple):
    """Gradients of a column layer's parameters that are still to be computed."""

    layer: ColumnLinear
    compute: Callable[[], tuple[Tensor, ...]]


class Entry:
    """Where an activation that all ranks have goes to the column layers that read it.

    In the backward pass each of them gives a part of the activation's gradient. 1. When all parts are there, their sum
    over the ranks begins to travel. 2. Beside it the gradients of the layers' weights are computed, which is why the
    layers do not do so themselves. 3. Then the sum is waited for.
    """

    def __init__(self, axis: Axis, columns: Sequence[ColumnLinear]) -> None:
        self.axis, self.columns = axis, list(columns)
        for column in self.columns:
            column.entry = self
        self.late: list[_Late] = []
        """of the forward pass that is under way"""

    def __call__(self, x: Tensor) -> Tensor:
        self.late = []
        # Parameters whose gradients a schedule takes over are none of autograd's.
        seen = [p for column in self.columns if column.defer is None for p in column.trained()]
        return _Enter.apply(x, self, self.late, *seen)


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, entry: Entry, late: list[_Late], *parameters: Tensor) -> Tensor:
        ctx.entry, ctx.late = entry, late
        if entry.axis.sequence:
            return collectives.gathered(x, collectives.SEQUENCE, entry.axis, "sequences")
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        axis, own = ctx.entry.axis, gradients[0].contiguous()
        kind = collectives.PartOfTotal if axis.sequence else collectives.Total
        total = kind(own, axis, "sum of gradients")
        computed = _late(ctx) if axis.overlap else None
        own = total.wait()
        return own, None, None, *(_late(ctx) if computed is None else computed)


def _late(ctx: Any) -> list[Tensor]:
    """The gradients of the parameters that autograd sees, in their order; all others are pushed to who takes them."""
    found: dict[int, Tensor] = {}
    pending = list(ctx.late)
    # Each holds the activation that came out of this very function, and so a ring that would never be freed.
    ctx.late.clear()
    for layer, compute in pending:
        if layer.defer is not None:
            layer.defer(layer.trained(), compute)
            continue
        for parameter, gradient in zip(layer.trained(), compute(), strict=True):
            known = found.get(id(parameter))
            found[id(parameter)] = gradient if known is None else known + gradient
    seen = [p for column in ctx.entry.columns if column.defer is None for p in column.trained()]
    return [found[id(parameter)].to(parameter.dtype) for parameter in seen]


class ColumnLinear(nn.Module):
    """A linear layer of whose outputs each rank computes a part; it reads what its entry gives."""

    def __init__(self, whole: nn.Linear, axis: Axis) -> None:
        super().__init__()
        self.weight = axis.shard(whole.weight, 0)
        self.bias = None if whole.bias is None else axis.shard(whole.bias, 0)
        self.entry: Entry | None = None
        # Where a schedule splits the backward pass: what takes its second part; see trainer.pipeline.deferred.
        self.defer: Push | None = None

    def trained(self) -> list[nn.Parameter]:
        """The parameters that get gradients."""
        return [p for p in (self.weight, self.bias) if p is not None and p.requires_grad]

    def forward(self, x: Tensor) -> Tensor:
        assert self.entry is not None, "every column layer has one"
        return _Column.apply(x, self, self.entry.late)


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: ColumnLinear, late: list[_Late]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer, ctx.late = layer, late
        return nn.functional.linear(x, layer.weight, layer.bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x,), (gradient,), layer = ctx.saved_tensors, gradients, ctx.layer
        ctx.late.append(_Late(layer, lambda: tuple(_weight_gradients(layer, x, gradient))))
        return (gradient @ layer.weight.to(gradient.dtype)).to(x.dtype), None, None


def _weight_gradients(layer: ColumnLinear, x: Tensor, gradient: Tensor) -> list[Tensor]:
    rows, computed = gradient.flatten(0, -2), []
    if layer.weight.requires_grad:
        computed.append(rows.t() @ x.to(gradient.dtype).flatten(0, -2))
    if layer.bias is not None and layer.bias.requires_grad:
        computed.append(rows.sum(0))
    return computed


class RowLinear(nn.Module):
    """A linear layer of whose inputs each rank has a part; the parts of its output are added up."""

    def __init__(self, whole: nn.Linear, axis: Axis) -> None:
        super().__init__()
        self.weight = axis.shard(whole.weight, 1)
        # Added once, after the sum.
        self.bias = whole.bias
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        partial = nn.functional.linear(x, self.weight)
        if self.axis.sequence:
            output = collectives.sum_of_parts(partial, self.axis)
        else:
            output = collectives.summed(partial, self.axis)
        return output if self.bias is None else output.add_(self.bias.to(output.dtype))


class VocabularyEmbedding(nn.Module):
    """An embedding of which each rank has a part of the vocabulary; tokens of other parts add nothing."""

    def __init__(self, whole: nn.Embedding, axis: Axis) -> None:
        super().__init__()
        self.weight = axis.shard(whole.weight, 0)
        self.axis = axis
        self.first = axis.rank * -(-whole.num_embeddings // axis.size)

    def forward(self, tokens: Tensor) -> Tensor:
        own = tokens - self.first
        foreign = (own < 0) | (own >= len(self.weight))
        vectors = nn.functional.embedding(own.masked_fill(foreign, 0), self.weight)
        return collectives.summed(vectors.masked_fill(foreign.unsqueeze(-1), 0), self.axis)
