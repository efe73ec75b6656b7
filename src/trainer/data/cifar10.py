"""CIFAR-10 from its own archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torchvision import datasets
from torchvision.transforms import v2

from trainer.data.base import Data, Split
from trainer.sample import Sample
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run

# Mean and standard deviation of the training images, channel by channel.
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Cifar10(Data):
    """60,000 colour images of 32x32 pixels in ten classes, with the usual crops and flips (Krizhevsky 2009)."""

    root: Path = Field(default=Path("data"), strict=False)
    """the folder that holds cifar-10-batches-py"""
    download: bool = False
    """whether to fetch the archive into root if it is missing"""

    def sample(self) -> Sample:
        return Sample("image", (3, 32, 32), 10)

    def count(self) -> int:
        return 50_000

    def check(self, run: Run) -> None:
        if not self.download and not (self.root / "cifar-10-batches-py").is_dir():
            raise ConfigError(
                f"data.root: {self.root} has no folder cifar-10-batches-py; set data.download=true to fetch it, or"
                " data.root=<folder that has it>"
            )
        try:
            # Fetched here, once, and not in every worker at the same time; compared with its checksums in any case.
            datasets.CIFAR10(self.root, download=self.download)
        except OSError as error:
            raise ConfigError(
                f"data.download: cannot fetch CIFAR-10 into {self.root} ({error}); check the network, or set"
                " data.root=<folder that has it>"
            ) from error
        except RuntimeError as error:
            raise ConfigError(
                f"data.root: {self.root / 'cifar-10-batches-py'} is damaged; remove it and set data.download=true"
            ) from error

    def build(self, seed: int) -> Split:
        scale = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        augment = [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()]
        return Split(
            datasets.CIFAR10(self.root, train=True, transform=v2.Compose(augment + scale)),
            datasets.CIFAR10(self.root, train=False, transform=v2.Compose(scale)),
        )
