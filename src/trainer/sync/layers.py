"""The layers of a model: what belongs together when its parameters are shared out."""

from __future__ import annotations

import collections

from torch import nn

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def layers_of(model: nn.Module) -> list[list[nn.Parameter]]:
    """The trained parameters of each layer, in the order in which the model names its modules; all are in exactly one.

    Modules of the same class side by side, such as the blocks of a transformer or of a ResNet, are a layer each, with
    all that is in them. Everywhere else a layer is a module with parameters of its own. A tied parameter is of the
    layer that has it first.
    """
    seen: set[int] = set()
    layers: list[list[nn.Parameter]] = []

    def take(module: nn.Module, recurse: bool) -> None:
        own = [p for p in module.parameters(recurse) if p.requires_grad and id(p) not in seen]
        seen.update(map(id, own))
        if own:
            layers.append(own)

    def visit(module: nn.Module) -> None:
        take(module, recurse=False)
        kinds = collections.Counter(type(child) for child in module.children())
        for child in module.children():
            if kinds[type(child)] > 1 and not isinstance(child, CONTAINERS):
                take(child, recurse=True)
            else:
                visit(child)

    visit(model)
    return layers
