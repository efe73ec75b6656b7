"""One stage at work: the forward and backward passes of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trainer.pipeline.deferred import Deferred, WeightGradients


class _Open(NamedTuple):
    """A micro-batch whose backward pass is to come."""

    entered: Tensor
    result: Tensor
    """what left the stage, or the loss"""


class Stage:
    """A module from tensor to tensor, and what its micro-batches have left to do. Gradients add up in `.grad`."""

    def __init__(self, module: nn.Module, first: bool, splits: bool) -> None:
        """With `splits`, backward passes are done in two parts."""
        self.module, self.first = module, first
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        self._weights = WeightGradients(module) if splits else None
        self._open: dict[int, _Open] = {}
        self._deferred: dict[int, list[Deferred]] = {}

    def forward(self, microbatch: int, entered: Tensor, finish: Callable[[Tensor], Tensor]) -> Tensor:
        """`finish` of the stage's output, without a graph."""
        if not self.first and entered.is_floating_point():
            entered.requires_grad_()
        result = finish(self.module(entered))
        self._open[microbatch] = _Open(entered, result)
        return result.detach()

    def backward(self, microbatch: int, gradient: Tensor, send: Callable[[Tensor], None], quiet: bool = False) -> None:
        """Add to the gradients, and unless this is the first stage `send` that of what entered once it is there.

        `gradient` is that of the output, or of the loss. With a split backward pass the
        gradients of the weights wait for `weights`. A `quiet` pass does not pass through autograd's accumulation of
        gradients, so that whoever waits there for each parameter's last one, as DDP does, does not notice it.
        """
        entered, result = self._open.pop(microbatch)
        sent = self.first

        def send_once(own: Tensor) -> None:
            nonlocal sent
            sent = True
            send(own)

        if result.requires_grad:
            if quiet:
                self._add(entered, result, gradient, send_once)
            else:
                if entered.requires_grad:
                    # Not after the pass, whose end may be to wait until the replicas have averaged their gradients.
                    entered.register_post_accumulate_grad_hook(lambda tensor: send_once(_taken(tensor)))
                torch.autograd.backward(result, gradient)
        if not sent:
            # Nothing here depends on what entered, and the stage before waits for a gradient all the same.
            send(torch.zeros_like(entered))
        if self._weights is not None:
            self._deferred[microbatch] = self._weights.take()

    def weights(self, microbatch: int, last: bool) -> None:
        """The second part of a split backward pass; it is quiet but where it is the `last` of the stage."""
        deferred = self._deferred.pop(microbatch)
        # A weight that a stage uses twice is complete when the last of its gradients is.
        to_come = {parameter: 0 for part in deferred for parameter in part.parameters}
        for part in deferred:
            for parameter in part.parameters:
                to_come[parameter] += 1
        for part in deferred:
            complete: dict[nn.Parameter, Tensor] = {}
            for parameter, gradient in zip(part.parameters, part.compute(), strict=True):
                to_come[parameter] -= 1
                if last and not to_come[parameter]:
                    complete[parameter] = gradient.to(parameter.dtype)
                else:
                    _accumulate(parameter, gradient)
            if complete:
                torch.autograd.backward([p.view_as(p) for p in complete], list(complete.values()))

    def _add(self, entered: Tensor, result: Tensor, gradient: Tensor, send: Callable[[Tensor], None]) -> None:
        wanted = entered.requires_grad and not self.first
        sources = [entered, *self._parameters] if wanted else self._parameters
        gradients = list(torch.autograd.grad(result, sources, gradient, allow_unused=True))
        own = gradients.pop(0) if wanted else None
        if own is not None:
            send(own)
        for parameter, own in zip(self._parameters, gradients, strict=True):
            if own is not None:
                # It may share its memory with what is being sent.
                _accumulate(parameter, own if parameter.grad is not None else own.clone())


def _accumulate(parameter: Tensor, gradient: Tensor) -> None:
    gradient = gradient.detach().to(parameter.dtype)
    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


def _taken(tensor: Tensor) -> Tensor:
    gradient, tensor.grad = tensor.grad, None
    assert gradient is not None, "called where it is there"
    return gradient
