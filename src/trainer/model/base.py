"""`model`: what is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from trainer.sample import Sample
from trainer.spec import Component, ConfigError

if TYPE_CHECKING:
    from trainer.run import Run


class Model(Component):
    """Builds a module that maps a batch of inputs to logits with the classes in the last dim."""

    def accepts(self) -> tuple[Literal["image", "tokens"], ...]:
        """The kinds of sample this model can read."""
        return ("image",)

    def build(self, sample: Sample) -> nn.Module:
        """A freshly initialised module for samples like `sample`; draws from torch's global generator."""
        raise NotImplementedError

    def skeleton(self, sample: Sample) -> nn.Module:
        """The module without memory for its weights; with it, where a user's model cannot be built that way."""
        try:
            with torch.device("meta"):
                return self.build(sample)
        except Exception:  # user code may compute with its fresh weights, which fails in many ways without memory
            return self.build(sample)

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        """What the loss of a batch is of its samples' losses."""
        return "mean"

    @property
    def has_own_loss(self) -> bool:
        """Whether the loss is another than the mean cross-entropy of logits."""
        return False

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy of logits (…, classes) against int64 targets (…)."""
        return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())

    def check(self, run: Run) -> None:
        sample = run.data.sample()
        if sample.kind not in self.accepts():
            raise ConfigError(
                f"model: {type(self).__name__} reads {' or '.join(self.accepts())} samples, but data gives"
                f" {sample.kind} of shape {sample.shape}; choose another model or data"
            )
