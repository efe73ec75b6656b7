"""Made-up samples of any shape, for measuring without a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch.utils.data import TensorDataset

from trainer.data.base import Data, Split
from trainer.sample import Sample
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run

Size = Annotated[int, Field(ge=1)]


class Synthetic(Data):
    """Noise around one random pattern a class, so that a model can learn it; or tokens that count upwards."""

    kind: Literal["image", "tokens"] = "image"
    """the kind of sample"""
    shape: tuple[Size, ...] = Field(default=(3, 32, 32), strict=False)
    """the shape of one sample: (channels, height, width) of an image, or (length,) of tokens"""
    classes: Annotated[int, Field(ge=2)] = 10
    """the number of classes, or of different tokens"""
    samples: Annotated[int, Field(ge=2)] = 2048
    """the number of samples to train on; an eighth as many are evaluated"""

    def sample(self) -> Sample:
        return Sample(self.kind, self.shape, self.classes)

    def count(self) -> int:
        return self.samples

    def check(self, run: Run) -> None:
        dims = {"image": 3, "tokens": 1}[self.kind]
        if len(self.shape) != dims:
            raise ConfigError(
                f"data.shape: {self.kind} samples have {dims} sizes, got {list(self.shape)}; write for example"
                f" data.shape={'[3,32,32]' if dims == 3 else '[64]'}"
            )

    def build(self, seed: int) -> Split:
        generator = torch.Generator().manual_seed(seed)
        total = self.samples + max(1, self.samples // 8)
        target = torch.randint(self.classes, (total,), generator=generator)
        if self.kind == "tokens":
            sequence = (target[:, None] + torch.arange(self.shape[0] + 1)) % self.classes
            tensors = sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()
        else:
            patterns = torch.randn(self.classes, *self.shape, generator=generator)
            tensors = patterns[target] + torch.randn(total, *self.shape, generator=generator), target
        return Split(
            TensorDataset(*(part[: self.samples] for part in tensors)),
            TensorDataset(*(part[self.samples :] for part in tensors)),
        )
