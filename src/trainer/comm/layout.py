"""What of a bucket travels compressed and what dense, and what each parameter carries from step to step."""

from typing import Any

import torch
from torch import Tensor


class Memory:
    """Tensors that belong to parameters, by name: residuals, momenta, factors.

    They outlive the buckets, which DDP cuts anew after its first step.
    """

    def __init__(self) -> None:
        self._kept: dict[int, dict[str, Tensor]] = {}

    def get(self, parameter: Tensor, name: str) -> Tensor | None:
        return self._kept.get(id(parameter), {}).get(name)

    def put(self, parameter: Tensor, name: str, value: Tensor) -> None:
        self._kept.setdefault(id(parameter), {})[name] = value

    def of(self, parameter: Tensor) -> dict[str, Tensor]:
        """Everything that `parameter` carries."""
        return self._kept.get(id(parameter), {})

    def clear(self) -> None:
        self._kept.clear()

    @property
    def bytes(self) -> int:
        return sum(value.nbytes for kept in self._kept.values() for value in kept.values())


class Layout:
    """One bucket: its parameters' places in the buffer, and flat tensors that hold those that travel compressed.

    A parameter of fewer than `min_numel` elements travels dense.
    """

    def __init__(
        self,
        index: int,
        parameters: list[Tensor],
        places: list[tuple[int, int]],
        min_numel: int,
        memory: Memory,
    ) -> None:
        self.index = index
        self.ids = [id(parameter) for parameter in parameters]
        pairs = list(zip(parameters, places, strict=True))
        self.memory = memory
        self.parameters = [parameter for parameter, (_, numel) in pairs if numel >= min_numel]
        self.large = [place for _, place in pairs if place[1] >= min_numel]
        self.small = [place for _, place in pairs if place[1] < min_numel]
        self.sizes = [numel for _, numel in self.large]
        self.numel = sum(self.sizes)
        self._flats: dict[str, Tensor] = {}
        self.notes: dict[int, Any] = {}
        """what a codec remembers of a part of this bucket, by where it starts; made again from the memory when lost"""

    def flat(self, name: str, like: Tensor, place: slice) -> Tensor:
        """The flat tensor that holds `name` of all compressed parameters, zero where a parameter had none.

        From then on each parameter's entry in the memory is a view of it. What lies outside `place` is another rank's.
        """
        if name not in self._flats:
            before = torch.zeros(self.numel, dtype=like.dtype, device=like.device)
            for parameter, part in zip(self.parameters, before.split(self.sizes), strict=True):
                kept = self.memory.get(parameter, name)
                if kept is not None:
                    part.copy_(kept)
            flat = torch.zeros_like(before)
            flat[place] = before[place]
            for parameter, part in zip(self.parameters, flat.split(self.sizes), strict=True):
                self.memory.put(parameter, name, part)
            self._flats[name] = flat
        return self._flats[name]

    def part(self, place: slice) -> "Part":
        """The stretch of the flat tensors that one rank compresses: all of it, or its share inside a hierarchy."""
        return Part(self, place)

    def take(self, buffer: Tensor, places: list[tuple[int, int]], dtype: torch.dtype) -> Tensor:
        """A flat copy of what stands at `places` of the bucket's buffer, in `dtype`."""
        return torch.cat([buffer[start : start + numel] for start, numel in places]).to(dtype)

    def give(self, buffer: Tensor, places: list[tuple[int, int]], flat: Tensor) -> None:
        """Put `flat` back to where `take` found it."""
        parts = flat.split([numel for _, numel in places])
        torch._foreach_copy_([buffer[start : start + numel] for start, numel in places], list(parts))


class Part:
    """A stretch of a layout's flat tensors."""

    def __init__(self, layout: Layout, place: slice) -> None:
        self.layout, self.place = layout, place

    def flat(self, name: str, like: Tensor) -> Tensor:
        """This stretch of the flat tensor `name`."""
        return self.layout.flat(name, like, self.place)[self.place]

    def pieces(self) -> list[slice]:
        """Where each parameter lies in this stretch; empty for those outside."""
        low, high, _ = self.place.indices(self.layout.numel)
        found, start = [], 0
        for size in self.layout.sizes:
            begin, end = max(start, low), min(start + size, high)
            found.append(slice(begin - low, max(begin, end) - low))
            start += size
        return found
