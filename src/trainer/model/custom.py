"""A model of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from trainer.model.base import Model
from trainer.sample import Sample
from trainer.spec import ConfigError, call_factory, load_callable

if TYPE_CHECKING:
    from trainer.run import Run


class Custom(Model):
    """Whatever `factory(**kwargs)` returns; it must be a torch.nn.Module."""

    factory: str
    """the callable that makes the module, as package.module:callable"""
    kwargs: dict[str, Any] = {}
    """the arguments of the factory"""
    loss_function: str | None = None
    """the callable (output, target) -> loss, as package.module:callable; null is mean cross-entropy"""
    loss_reduction: Literal["mean", "sum"] = "mean"
    """what loss_function gives: the mean over the samples and targets of a batch, or their sum"""

    def accepts(self) -> tuple[Literal["image", "tokens"], ...]:
        return ("image", "tokens")

    def check(self, run: Run) -> None:
        super().check(run)
        self._make()
        if self.loss_function is not None:
            load_callable(self.loss_function, "model.loss_function")

    def build(self, sample: Sample) -> nn.Module:
        return self._make()

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        return self.loss_reduction

    @property
    def has_own_loss(self) -> bool:
        return self.loss_function is not None

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        if self.loss_function is None:
            return super().loss(output, target)
        return load_callable(self.loss_function, "model.loss_function")(output, target)

    def _make(self) -> nn.Module:
        made = call_factory(self.factory, self.kwargs, "model")
        if not isinstance(made, nn.Module):
            raise ConfigError(
                f"model.factory: {self.factory} returned a {type(made).__name__}; it must return a torch.nn.Module"
            )
        if any(isinstance(p, nn.parameter.UninitializedParameter) for p in made.parameters()):
            raise ConfigError(
                f"model.factory: {self.factory} returned lazy parameters, whose sizes no rank knows yet; run"
                " one sample through it in the factory"
            )
        if any(getattr(part, "sparse", False) for part in made.modules()):
            raise ConfigError(
                f"model.factory: {self.factory} returned a module with sparse gradients, which no hook reduces; build"
                " its embeddings with sparse=False"
            )
        return made
