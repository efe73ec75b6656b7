"""The layers of a model: what belongs together when it is shared out, or computed once more."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from torch import nn

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def layers_of(model: nn.Module) -> list[list[nn.Parameter]]:
    """The trained parameters of each layer, in the order in which the model names its modules; all are in exactly one.

    A tied parameter is of the layer that has it first.
    """
    seen: set[int] = set()
    layers: list[list[nn.Parameter]] = []
    for module, whole in visit(model):
        own = [p for p in module.parameters(recurse=whole) if p.requires_grad and id(p) not in seen]
        seen.update(map(id, own))
        if own:
            layers.append(own)
    return layers


def visit(model: nn.Module) -> Iterator[tuple[nn.Module, bool]]:
    """The modules that are layers with all that is in them, and those of which only their own parameters are.

    Modules of the same class side by side, such as the blocks of a transformer or of a ResNet, are a layer each, with
    all that is in them. Everywhere else a layer is a module with parameters of its own.
    """
    yield model, False
    kinds = collections.Counter(type(child) for child in model.children())
    for child in model.children():
        if kinds[type(child)] > 1 and not isinstance(child, CONTAINERS):
            yield child, True
        else:
            yield from visit(child)
