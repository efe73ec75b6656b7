"""Activation checkpointing: keep a layer's input only, and compute the layer once more in the backward pass."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trainer.layers import visit


def checkpoint_activations(model: nn.Module, which: Literal["none", "full"] | int) -> None:
    """Have every layer of `model` ("full"), or every `which`-th, forget its activations (Chen et al. 2016).

    The model's modules and names stay as they are. Dropout draws the same masks again. A layer is what `layers.visit`
    says, such as a block of a transformer.
    """
    if which == "none":
        return
    layers = [module for module, whole in visit(model) if whole or _is_leaf(module)]
    for layer in layers[:: 1 if which == "full" else which]:
        layer.forward = functools.partial(_forget, layer, layer.forward)


def _is_leaf(module: nn.Module) -> bool:
    has_parameters = next(module.parameters(recurse=False), None) is not None
    return has_parameters and next(module.children(), None) is None


def _forget(layer: nn.Module, forward: Callable, *inputs: Any, **options: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **options)

    def contexts() -> tuple[contextlib.AbstractContextManager, contextlib.AbstractContextManager]:
        return contextlib.nullcontext(), _statistics_kept(layer)

    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **options)


@contextlib.contextmanager
def _statistics_kept(layer: nn.Module) -> Iterator[None]:
    """Within it norms do not see again, in their running means and counts, what they have seen already."""
    norms = [m for m in layer.modules() if isinstance(m, nn.modules.batchnorm._NormBase) and m.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    counts = [None if norm.num_batches_tracked is None else norm.num_batches_tracked.clone() for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum = momentum
            if norm.num_batches_tracked is not None and count is not None:
                norm.num_batches_tracked.copy_(count)
