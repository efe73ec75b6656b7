"""Text as bytes, for language models."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.utils.data import Dataset

from trainer.data.base import Data, Split
from trainer.sample import Sample
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run


class Text(Data):
    """Pieces of `length` bytes of any file, each with the bytes that follow it; the last tenth is evaluated."""

    path: Path | None = Field(default=None, strict=False)
    """the file to read; null takes the language reference that every Python carries (pydoc_data.topics)"""
    length: Annotated[int, Field(ge=2)] = 64
    """the number of bytes in a sample"""

    def sample(self) -> Sample:
        return Sample("tokens", (self.length,), 256)

    def count(self) -> int:
        return len(self.build(0).train)  # type: ignore[arg-type]

    def check(self, run: Run) -> None:
        if self.path is None:
            return
        if not self.path.is_file():
            raise ConfigError(f"data.path: there is no file {self.path}; set data.path=<text file>")
        if self.path.stat().st_size < 20 * self.length:
            raise ConfigError(
                f"data.path: {self.path} has {self.path.stat().st_size} bytes, which is short for samples of"
                f" {self.length}; give a longer text or a smaller data.length"
            )

    def build(self, seed: int) -> Split:
        if self.path is not None:
            content = self.path.read_bytes()
        else:
            topics = importlib.import_module("pydoc_data.topics").topics
            content = "\n".join(topics[name] for name in sorted(topics)).encode()
        data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        cut = len(data) * 9 // 10
        return Split(Pieces(data[:cut], self.length), Pieces(data[cut:], self.length))


class Pieces(Dataset):
    """Consecutive pieces of a uint8 tensor, each with itself moved by one byte as target; both int64 (length,)."""

    def __init__(self, data: Tensor, length: int) -> None:
        self.data, self.length = data, length

    def __len__(self) -> int:
        return (len(self.data) - 1) // self.length

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        start = index * self.length
        piece = self.data[start : start + self.length + 1].long()
        return piece[:-1], piece[1:]
