"""Data sets of the user's own."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from trainer.data.base import Data, Split
from trainer.sample import Sample
from trainer.spec import ConfigError, call_factory


class Custom(Data):
    """Whatever `factory(**kwargs)` returns: a training and an evaluation set, each map-style with (input, target)."""

    factory: str
    """the callable that makes both data sets, as package.module:callable"""
    kwargs: dict[str, Any] = {}
    """the arguments of the factory"""
    classes: int = Field(default=10, ge=2)
    """the number of classes, or of different tokens"""

    def sample(self) -> Sample:
        try:
            first = torch.as_tensor(self._make().train[0][0])
        except ConfigError:
            raise
        except Exception as error:  # the user's code may raise anything
            raise ConfigError(
                f"data.factory: the first training sample of {self.factory} is no (input, target) of tensors"
                f" ({type(error).__name__}: {error}); give the data set a transform that makes them"
            ) from error
        tokens = first.dim() == 1 and not first.is_floating_point()
        return Sample("tokens" if tokens else "image", tuple(first.shape), self.classes)

    def count(self) -> int:
        return len(self._make().train)  # type: ignore[arg-type]

    def build(self, seed: int) -> Split:
        return self._make()

    def _make(self) -> Split:
        made = call_factory(self.factory, self.kwargs, "data")
        pair = isinstance(made, (tuple, list)) and len(made) == 2
        if not pair or not all(hasattr(part, "__getitem__") and hasattr(part, "__len__") for part in made):
            raise ConfigError(
                f"data.factory: {self.factory} returned {type(made).__name__}; it must return (train, evaluation), two"
                " data sets with __len__ and __getitem__"
            )
        return Split(*made)
