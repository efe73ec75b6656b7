"""Share a model out between tensor ranks, as its plan says; names stay, and each rank keeps its part."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainer.checkpoint_parts import Cut
from trainer.spec import ConfigError
from trainer.tensor import collectives
from trainer.tensor.axis import Axis
from trainer.tensor.check import matching
from trainer.tensor.layers import ColumnLinear, Entry, RowLinear, VocabularyEmbedding
from trainer.tensor.loss import cross_entropy
from trainer.tensor.streams import Streams
from trainer.tensor_plan import TensorPlan


@dataclass(frozen=True)
class Shared:
    """What became of a model."""

    cuts: dict[str, Cut]
    """of the parameters of which this rank has a part, by name"""
    loss: Callable[[Tensor, Tensor], Tensor]
    """the loss of this rank's output"""
    output: Callable[[Tensor], Tensor]
    """the model's output, from this rank's part of it"""


def share_out(
    model: nn.Module, plan: TensorPlan, axis: Axis, loss: Callable[[Tensor, Tensor], Tensor], own_loss: bool
) -> Shared:
    """Replace the layers of `model`, whole and alike on all ranks, by this rank's parts of them.

    `loss` is the model's, which with `own_loss` is a user's and needs the whole output.
    """
    streams = Streams(axis.rank)
    cuts: dict[str, Cut] = {}
    for region in plan.regions:
        for path, module in matching(model, region.module):
            columns = [_column(module, name, axis, f"{path}.{name}", cuts) for name in region.columns]
            for name in region.rows:
                whole = getattr(module, name)
                setattr(module, name, RowLinear(whole, axis))
                cuts[f"{path}.{name}.weight"] = Cut(1, whole.in_features)
            module.register_forward_pre_hook(_Enters(Entry(axis, columns), streams))
            module.register_forward_hook(streams.leave, always_call=True)
    for pattern in plan.embeddings:
        for path, module in list(matching(model, pattern)):
            assert isinstance(module, nn.Embedding), "a plan's embeddings are some"
            _replace(model, path, VocabularyEmbedding(module, axis))
            cuts[f"{path}.weight"] = Cut(0, module.num_embeddings)
    if plan.sequence is not None and axis.sequence:
        _share_sequence(model, plan, axis, cuts)
    if plan.head is None or own_loss:
        return Shared(cuts, loss, lambda output: output)
    whole = model.get_submodule(plan.head)
    assert isinstance(whole, nn.Linear), "a plan's head is one"
    # What the head reads is whole on every rank.
    plain = dataclasses.replace(axis, sequence=False)
    parent, _, name = plan.head.rpartition(".")
    head = _column(model.get_submodule(parent), name, plain, plan.head, cuts)
    head.register_forward_pre_hook(_Enters(Entry(plain, [head]), None))
    each, classes = -(-whole.out_features // axis.size), whole.out_features

    def parallel_loss(output: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(output, target, axis.rank * each, axis)

    def gathered(output: Tensor) -> Tensor:
        padded = nn.functional.pad(output, (0, each - output.shape[-1]))
        return collectives.gathered(padded, -1, axis, "logits")[..., :classes]

    return Shared(cuts, parallel_loss, gathered)


class _Enters:
    """A forward pre-hook of a region."""

    def __init__(self, entry: Entry, streams: Streams | None) -> None:
        self.entry, self.streams = entry, streams

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        entered = self.entry(inputs[0])
        if self.streams is not None:
            self.streams.enter(module)
        return (entered, *inputs[1:])


def _share_sequence(model: nn.Module, plan: TensorPlan, axis: Axis, cuts: Mapping[str, Cut]) -> None:
    """Between the plan's two modules each rank has its part of every sequence.

    Parameters there that all ranks have see a part of the positions only, so their gradients are added up.
    """
    assert plan.sequence is not None, "checked by the launcher"
    first, last = plan.sequence
    model.get_submodule(first).register_forward_pre_hook(_Scatters(axis))
    model.get_submodule(last).register_forward_hook(_Gathers(axis))
    prefix = first.rpartition(".")[0]
    for name, parameter in model.named_parameters():
        inside = name.startswith((f"{prefix}.", f"{last}."))
        if inside and name not in cuts and parameter.requires_grad:
            parameter.register_hook(_Adds(axis))


class _Scatters:
    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x, size = inputs[0], self.axis.size
        if x.shape[collectives.SEQUENCE] % size:
            raise ConfigError(
                f"parallel.tensor.sequence: {size} ranks cannot share sequences of {x.shape[collectives.SEQUENCE]}"
                " evenly; use sequence=false"
            )
        return (collectives.shared_out(x, self.axis), *inputs[1:])


class _Gathers:
    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def __call__(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return collectives.whole(output, self.axis)


class _Adds:
    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def __call__(self, gradient: Tensor) -> Tensor:
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        return collectives.Total(gradient, self.axis, "sum of small gradients").wait()


def _column(parent: nn.Module, name: str, axis: Axis, path: str, cuts: dict[str, Cut]) -> ColumnLinear:
    whole = getattr(parent, name)
    layer = ColumnLinear(whole, axis)
    setattr(parent, name, layer)
    cuts |= {f"{path}.{entry}": Cut(0, whole.out_features) for entry, _ in layer.named_parameters()}
    return layer


def _replace(model: nn.Module, path: str, layer: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, layer)
