"""Images in one folder a class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from PIL import Image
from pydantic import Field
from torchvision import datasets
from torchvision.transforms import v2

from trainer.data.base import Data, Split
from trainer.sample import Sample
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run

# The customary mean and standard deviation of natural images, channel by channel.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageFolder(Data):
    """`root/train/<class>/*` and `root/val/<class>/*`, read by torchvision, cropped to squares."""

    root: Path = Field(strict=False)
    """the folder that holds train and val"""
    size: Annotated[int, Field(ge=8)] = 224
    """the side of the square images in pixels"""

    def sample(self) -> Sample:
        return Sample("image", (3, self.size, self.size), len(self._classes("train")))

    def count(self) -> int:
        return len(self._folder("train"))

    def check(self, run: Run) -> None:
        missing = [name for name in self._classes("val") if name not in self._classes("train")]
        if missing:
            raise ConfigError(
                f"data.root: {self.root / 'val'} has the class {missing[0]!r}, which train lacks; the folders must"
                " match"
            )
        self._folder("val")

    def build(self, seed: int) -> Split:
        scale = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        augment = [v2.RandomResizedCrop(self.size, antialias=True), v2.RandomHorizontalFlip()]
        centre = [v2.Resize(self.size * 8 // 7, antialias=True), v2.CenterCrop(self.size)]
        train, val = self._folder("train"), self._folder("val")
        train.transform, val.transform = v2.Compose(augment + scale), v2.Compose(centre + scale)
        # The classes' numbers are those of train, also where val lacks some of them.
        val.samples = [(path, train.class_to_idx[val.classes[number]]) for path, number in val.samples]
        return Split(train, val)

    def _folder(self, part: str) -> datasets.ImageFolder:
        try:
            return datasets.ImageFolder(str(self.root / part), loader=read_image)
        except FileNotFoundError as error:
            raise ConfigError(f"data.root: {str(error).splitlines()[0]}; put images there") from error

    def _classes(self, part: str) -> list[str]:
        folder = self.root / part
        if not folder.is_dir():
            raise ConfigError(f"data.root: there is no folder {folder}; set data.root=<folder with train/ and val/>")
        classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        if not classes:
            raise ConfigError(f"data.root: {folder} has no folder a class; put images in {folder}/<class>/")
        return classes


def read_image(path: str) -> Any:
    """The RGB image at `path`. Raises ConfigError, with the path, if it cannot be read."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(f"data: cannot read the image {path} ({error}); repair or remove the file") from error
