"""Parameters of which ranks of an axis have parts, in checkpoints: written part by part, under the name of the whole.

A checkpoint then knows nothing of the number of parts, and any other number can read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from trainer.mesh import Mesh


class Cut(NamedTuple):
    """How a parameter is cut."""

    dim: int
    size: int
    """of the whole parameter, along `dim`; all parts but the last are as large as torch.chunk makes them"""


class Parts:
    """Turns this rank's parts into what torch.distributed.checkpoint reads and writes in parts, and back."""

    def __init__(self, cuts: Mapping[str, Cut], mesh: Mesh, axis: str = "tensor") -> None:
        """`cuts` by the parameters' names, over the ranks of `axis`; collective over all ranks where there are any."""
        self.cuts = dict(cuts)
        if not self.cuts:
            return
        # Of the host, where checkpoints are written from.
        group = mesh.another(axis, "parts in checkpoints", torch.device("cpu"), dist.default_pg_timeout)
        self._mesh = DeviceMesh.from_group(group, "cpu")

    def cut_of(self, name: str) -> Cut | None:
        """How the entry `name` of a checkpoint, of the model or the optimizer, is cut."""
        kind, _, rest = name.partition(".")
        return self.cuts.get(rest if kind == "model" else rest.rpartition(".")[0])

    def wrapped(self, name: str, own: Tensor) -> Tensor:
        """This rank's part, on the host, as a part; what is not cut, such as an optimizer's count, as it is."""
        cut = self.cut_of(name)
        if cut is None or own.dim() == 0:
            return own
        shape = list(own.shape)
        shape[cut.dim] = cut.size
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            own, self._mesh, [Shard(cut.dim)], run_check=False, shape=torch.Size(shape), stride=stride
        )

    def empty(self, name: str, whole: torch.Size, dtype: torch.dtype) -> Tensor:
        """Room on the host for this rank's part of an entry whose whole size is `whole`."""
        cut = self.cut_of(name)
        shape = list(whole)
        if cut is not None and shape:
            each = -(-cut.size // self._mesh.size())
            first = min(cut.size, each * self._mesh.get_local_rank())
            shape[cut.dim] = min(each, cut.size - first)
        return self.wrapped(name, torch.empty(shape, dtype=dtype))


def cuts_of(module: nn.Module) -> dict[str, Cut]:
    """How the parameters of `module` are cut that fully_shard has shared out: all of them, along their first dim."""
    return {name: Cut(0, p.shape[0]) for name, p in module.named_parameters() if isinstance(p, DTensor)}


def like(own: Tensor, value: Tensor) -> Tensor:
    """`own`, this rank's part, as a part of what `value` is one of; as it is where `value` is no part."""
    if not isinstance(value, DTensor) or own.dim() == 0:
        return own
    shape, stride = value.shape, value.stride()
    local = own.to(value.device)
    return DTensor.from_local(local, value.device_mesh, value.placements, run_check=False, shape=shape, stride=stride)


def own_part(value: Tensor) -> Tensor:
    """This rank's part of what was wrapped."""
    return value.to_local() if isinstance(value, DTensor) else value
