"""Backward passes in two parts: gradients of activations now, those of weights when the schedule has time for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Deferred(NamedTuple):
    """The gradients of some weights, to be computed: `compute()` gives one for each of `parameters`."""

    parameters: Sequence[nn.Parameter]
    compute: Callable[[], tuple[Tensor, ...]]


class WeightGradients:
    """Takes the weights of linear and convolutional layers out of autograd's hands.

    Their layers' backward passes compute the gradient of the input and push the rest here; all other parameters, such
    as those of norms, keep their gradients in the first part. A layer of another kind takes part by having an attribute
    `defer`: None, or in its backward pass to be called with parameters that autograd does not see, and what computes
    their gradients. As in Zero Bubble (Qi et al. 2023), section 4.
    """

    def __init__(self, module: nn.Module) -> None:
        self._queue: list[Deferred] = []
        # A layer whose input needs no gradient would have no backward pass without it.
        anchor = next((p for p in module.parameters() if p.requires_grad), None)
        self._anchor = torch.zeros((), device=None if anchor is None else anchor.device, requires_grad=True)
        for layer in module.modules():
            if hasattr(layer, "defer"):
                setattr(layer, "defer", self._push)  # noqa: B010  # of a type that Module does not know
            elif isinstance(layer, (nn.Linear, nn.Conv2d)) and _splits(layer):
                layer.forward = functools.partial(self._forward, layer)  # type: ignore[method-assign]

    def take(self) -> list[Deferred]:
        """What was pushed since the last call, in the order of the backward pass."""
        taken = list(self._queue)
        self._queue.clear()
        return taken

    def _forward(self, layer: nn.Linear | nn.Conv2d, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return _forward(layer, x)
        apply = _Linear.apply if isinstance(layer, nn.Linear) else _Conv2d.apply
        return apply(x, self._anchor, layer, self._push)

    def _push(self, parameters: Sequence[nn.Parameter], compute: Callable[[], tuple[Tensor, ...]]) -> None:
        self._queue.append(Deferred(parameters, compute))


def _splits(layer: nn.Linear | nn.Conv2d) -> bool:
    if isinstance(layer, nn.Conv2d) and (layer.padding_mode != "zeros" or isinstance(layer.padding, str)):
        return False  # such a padding is a step of its own before the product
    # A weight that is computed anew in each forward pass, as weight_norm's is, belongs to autograd.
    own = isinstance(layer.weight, nn.Parameter) and isinstance(layer.bias, nn.Parameter | None)
    return type(layer) in (nn.Linear, nn.Conv2d) and own and layer.weight.requires_grad


def _forward(layer: nn.Linear | nn.Conv2d, x: Tensor) -> Tensor:
    """The layer's own pass: the instance's `forward` is replaced, its class's is not."""
    return type(layer).forward(layer, x)  # type: ignore[arg-type]


def _parameters(layer: Any) -> Sequence[nn.Parameter]:
    return (layer.weight, layer.bias) if _trains_bias(layer) else (layer.weight,)


def _trains_bias(layer: Any) -> bool:
    return layer.bias is not None and layer.bias.requires_grad


class _Split(torch.autograd.Function):
    """The layer's own forward pass; each kind of layer has a backward pass that pushes its second part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: nn.Linear | nn.Conv2d, push: Callable) -> Tensor:
        ctx.save_for_backward(x)
        ctx.layer, ctx.push = layer, push
        return _forward(layer, x)


class _Linear(_Split):
    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x,), (gradient,), layer = ctx.saved_tensors, gradients, ctx.layer

        def compute() -> tuple[Tensor, ...]:
            rows = gradient.flatten(0, -2)
            weight = rows.t() @ x.to(gradient.dtype).flatten(0, -2)
            return (weight, rows.sum(0)) if _trains_bias(layer) else (weight,)

        ctx.push(_parameters(layer), compute)
        # Under autocast products are in another dtype than the weights.
        own = gradient @ layer.weight.to(gradient.dtype) if ctx.needs_input_grad[0] else None
        return None if own is None else own.to(x.dtype), None, None, None


class _Conv2d(_Split):
    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x,), (gradient,), layer = ctx.saved_tensors, gradients, ctx.layer
        inputs, weight = x.to(gradient.dtype), layer.weight.to(gradient.dtype)
        backward = functools.partial(
            torch.ops.aten.convolution_backward,
            gradient,
            inputs,
            weight,
            None if layer.bias is None else list(layer.bias.shape),
            layer.stride,
            layer.padding,
            layer.dilation,
            False,
            [0, 0],
            layer.groups,
        )

        def compute() -> tuple[Tensor, ...]:
            _, own, bias = backward([False, True, _trains_bias(layer)])
            return (own, bias) if _trains_bias(layer) else (own,)

        ctx.push(_parameters(layer), compute)
        own = backward([True, False, False])[0] if ctx.needs_input_grad[0] else None
        return None if own is None else own.to(x.dtype), None, None, None
