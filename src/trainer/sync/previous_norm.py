"""Clipping before the whole gradient is there: by the norm of the step before."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# As torch's clip_grad_norm_ has it: no division by zero.
EPSILON = 1e-6


class PreviousNorm:
    """Scales a step's gradients by what the global norm of the step before would have clipped.

    Gradients' norms change slowly, so this keeps steps as short as clipping does, but an outburst is seen a step late.
    """

    def __init__(self, max_norm: float | None) -> None:
        assert max_norm is not None, "the launcher demands clip.max_norm"
        self.max_norm = max_norm
        self._norm: Tensor | None = None
        self._squares: list[Tensor] = []

    @property
    def known(self) -> bool:
        """Whether there was a step before."""
        return self._norm is not None

    def see(self, gradients: Sequence[Tensor]) -> None:
        """Take part of this step's gradients, as they are before clipping, into its norm."""
        self._squares += [gradient.detach().square().sum() for gradient in gradients]

    def scale_(self, gradients: Sequence[Tensor]) -> None:
        """Clip `gradients` in place."""
        assert self._norm is not None
        factor = (self.max_norm / (self._norm + EPSILON)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient.dtype))

    def next_step(self) -> None:
        """The step is over: its norm is now the one before."""
        squares, self._squares = self._squares, []
        if squares:
            # Parts arrive in different orders on different ranks of other rules; sorted, their sum does not.
            self._norm = torch.stack([square.double() for square in squares]).sort().values.sum().sqrt()

    def carried(self) -> dict[str, Tensor]:
        return {} if self._norm is None else {"previous_norm": self._norm}

    def resume(self, stored: dict[str, Tensor]) -> None:
        self._squares, self._norm = [], stored.get("previous_norm")
