"""Which modules read which parameters in their forward pass, found by watching one."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode


class Readers:
    """For each parameter the modules whose forward pass reads it, and the order in which parameters are first read.

    A module usually reads its own. But attention reads the weights of an inner layer that is never called, a head may
    read an embedding's, and a list of parameters is read by the module that holds it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules_of: dict[int, list[nn.Module]] = {}
        for module in model.modules():
            for parameter in module.parameters(recurse=False):
                self.modules_of.setdefault(id(parameter), []).append(module)
        self._ticks = itertools.count()
        self._read: dict[int, int] = {}
        self._entered: dict[int, int] = {}

    @property
    def order(self) -> list[int]:
        """Ids of the parameters in the order in which the watched pass came to them."""
        return sorted(self._read, key=self._read.__getitem__)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Watch the forward pass of the model within."""
        # The model itself has been entered before anyone watches.
        inside: list[nn.Module] = [self.model]
        self._entered[id(self.model)] = next(self._ticks)

        def enter(module: nn.Module, _: Any) -> None:
            inside.append(module)
            self._entered.setdefault(id(module), next(self._ticks))

        def leave(module: nn.Module, *_: Any) -> None:
            # An exception may have passed by inner modules.
            while inside and inside.pop() is not module:
                pass

        modules = list(self.model.modules())[1:]
        handles = [module.register_forward_pre_hook(enter, prepend=True) for module in modules]
        handles += [module.register_forward_hook(leave, always_call=True) for module in modules]
        try:
            with _Watch(self, inside):
                yield
        finally:
            for handle in handles:
                handle.remove()
            self._ask_holders()

    def read(self, parameter: int, module: nn.Module) -> None:
        """`module` has read `parameter`, which it may do without having it."""
        if parameter in self.modules_of:
            self._read.setdefault(parameter, next(self._ticks))
            if module not in self.modules_of[parameter]:
                self.modules_of[parameter].append(module)

    def _ask_holders(self) -> None:
        """What a function of the user's own reads goes by unseen: there the nearest module that was entered reads."""
        holder: dict[int, nn.Module] = {}
        for module in self.model.modules():
            for child in module.children():
                holder.setdefault(id(child), module)
        for parameter, modules in self.modules_of.items():
            if not any(id(module) in self._entered for module in modules):
                module = modules[0]
                while id(module) not in self._entered:
                    module = holder[id(module)]
                modules.append(module)
            first = min(self._entered[id(module)] for module in modules if id(module) in self._entered)
            self._read.setdefault(parameter, first)


class _Watch(TorchFunctionMode):
    def __init__(self, readers: Readers, inside: list[nn.Module]) -> None:
        super().__init__()
        self.readers, self.inside = readers, inside

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in _flat((args, kwargs or {})):
            if isinstance(value, nn.Parameter):
                self.readers.read(id(value), self.inside[-1])
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
