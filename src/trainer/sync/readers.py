"""Which modules read which parameters in their forward pass, found by watching one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode


class Readers:
    """For each parameter the modules whose forward pass reads it, and the order in which parameters are first read.

    A module usually reads its own. But attention reads the weights of an inner layer that is never called, and a head
    may read an embedding's.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules_of: dict[int, list[nn.Module]] = {}
        for module in model.modules():
            for parameter in module.parameters(recurse=False):
                self.modules_of.setdefault(id(parameter), []).append(module)
        self.order: list[int] = []
        """ids of the parameters that were read, first reads first"""

    @contextlib.contextmanager
    def watch(self, model: nn.Module) -> Iterator[None]:
        """Watch the forward passes of `model` within."""
        # The model itself may have been entered before anyone watches.
        inside: list[nn.Module] = [model]

        def enter(module: nn.Module, _: Any) -> None:
            inside.append(module)

        def leave(module: nn.Module, *_: Any) -> None:
            # An exception may have passed by inner modules.
            while inside and inside.pop() is not module:
                pass

        handles = [module.register_forward_pre_hook(enter, prepend=True) for module in model.modules()]
        handles += [module.register_forward_hook(leave, always_call=True) for module in model.modules()]
        try:
            with _Watch(self, inside):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def read(self, parameter: int, module: nn.Module | None) -> None:
        """`module` has read `parameter`, which it may do without having it."""
        if parameter not in self.modules_of:
            return
        if parameter not in self.order:
            self.order.append(parameter)
        if module is not None and module not in self.modules_of[parameter]:
            self.modules_of[parameter].append(module)


class _Watch(TorchFunctionMode):
    def __init__(self, readers: Readers, inside: list[nn.Module]) -> None:
        super().__init__()
        self.readers, self.inside = readers, inside

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in _flat((args, kwargs or {})):
            if isinstance(value, nn.Parameter):
                self.readers.read(id(value), self.inside[-1] if self.inside else None)
        return func(*args, **(kwargs or {}))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _flat(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _flat(entry)
    else:
        yield value
