"""The generators that models, data and a user's own code draw from: torch's, Python's and NumPy's."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import Tensor


def seed(value: int) -> None:
    """Seed all of them, on the device as well."""
    torch.manual_seed(value)
    _seed_others(value)


def seed_host(value: int) -> None:
    """Seed those of the host: torch's on the device goes on."""
    torch.default_generator.manual_seed(value)
    _seed_others(value)


def _seed_others(value: int) -> None:
    random.seed(value)
    numpy.random.seed(value % 2**32)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Whatever is drawn within it on the host, the generators go on from where they were."""
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        numpy.random.set_state(before[2])


def states() -> dict[str, Tensor]:
    """Where all of them are, the device's too once it is in use, for a checkpoint."""
    of_numpy: Any = numpy.random.get_state()
    _, keys, *rest = of_numpy
    found = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(random.getstate()[1], dtype=torch.int64),
        # Words of 32 bits, a position, and a second normal number, if there is one; exact in this type.
        "numpy": torch.tensor([*keys.tolist(), *rest], dtype=torch.float64),
    }
    if torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def go_on(states: dict[str, Tensor]) -> None:
    """Go on from where they were; what a checkpoint of earlier times does not tell stays."""
    torch.set_rng_state(states["torch"])
    random.setstate((3, tuple(states["python"].tolist()), None))
    if "numpy" in states:
        *keys, position, has_second, second = states["numpy"].tolist()
        words = numpy.array(keys, dtype=numpy.uint32)
        numpy.random.set_state(("MT19937", words, int(position), int(has_second), second))
    if "cuda" in states and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(states["cuda"])
