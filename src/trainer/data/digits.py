"""Handwritten digits that come with the package: the data of the first run."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import torch
from torch.utils.data import TensorDataset

from trainer.data.base import Data, Split
from trainer.sample import Sample

TRAINED = 1437
# Of the pixels, over all images.
MEAN, STD = 0.305, 0.376


class Digits(Data):
    """1,797 greyscale images of 8x8 pixels (see DIGITS.md for their origin); a fixed random fifth is evaluated."""

    def sample(self) -> Sample:
        return Sample("image", (1, 8, 8), 10)

    def count(self) -> int:
        return TRAINED

    def build(self, seed: int) -> Split:
        with np.load(files("trainer.data") / "digits.npz") as stored:  # type: ignore[arg-type]
            images = torch.from_numpy(stored["images"]).float().div_(16).unsqueeze_(1)
            labels = torch.from_numpy(stored["labels"]).long()
        # The order in the file keeps writers together. It is mixed the same way whatever the run's seed, so that
        # accuracies of different seeds are of the same images.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        images, labels = ((images - MEAN) / STD)[order], labels[order]
        return Split(
            TensorDataset(images[:TRAINED], labels[:TRAINED]), TensorDataset(images[TRAINED:], labels[TRAINED:])
        )
