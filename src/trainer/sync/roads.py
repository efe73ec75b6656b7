"""Every road to a model's parameters other than its forward pass: each first lets pending updates land."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

from torch import nn

OVERRIDDEN = ("named_parameters", "__deepcopy__")


class Roads:
    """Has `flush` called before anyone else reads the parameters of `model`.

    `state_dict` has a hook of its own; `parameters()`, gradient clipping and averaging of weights go by
    `named_parameters`; a copy would take the weights without being asked.
    """

    def __init__(
        self,
        model: nn.Module,
        flush: Callable[[], None],
        unhooked: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        """Within `unhooked()` the model has none of the rule's hooks, so that a copy has none either."""
        self.model, self.flush, self.unhooked = model, flush, unhooked
        self._handle = model.register_state_dict_pre_hook(self._before_state_dict)
        vars(model)["named_parameters"] = self._named_parameters
        vars(model)["__deepcopy__"] = self._copy

    def close(self) -> None:
        self._handle.remove()
        for name in OVERRIDDEN:
            vars(self.model).pop(name)

    def _named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        self.flush()
        return type(self.model).named_parameters(self.model, *args, **kwargs)

    def _copy(self, memo: dict[int, Any]) -> nn.Module:
        self.flush()
        own = {name: vars(self.model).pop(name) for name in OVERRIDDEN}
        self._handle.remove()
        try:
            with self.unhooked():
                return copy.deepcopy(self.model, memo)
        finally:
            vars(self.model).update(own)
            self._handle = self.model.register_state_dict_pre_hook(self._before_state_dict)

    def _before_state_dict(self, *_: Any) -> None:
        self.flush()
