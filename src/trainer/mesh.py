"""The mesh: the only source of ranks and process groups."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

AXES = ("pipeline", "data", "tensor")


@dataclass(frozen=True)
class Mesh:
    """Ranks laid out along AXES, the last axis adjacent; a group an axis, and two that carry no gradients.

    `control` moves the trainer's own few numbers (metrics, the wish to stop) and `storage` is used by checkpoints,
    which may be written from a thread. Both are Gloo groups of all ranks, so that neither touches a GPU's streams.
    """

    rank: int
    world: int
    sizes: dict[str, int]
    ranks: dict[str, int]
    groups: dict[str, dist.ProcessGroup]
    replica: dist.ProcessGroup
    """the ranks that hold one copy of the model between them: those with the same place on the data axis"""
    control: dist.ProcessGroup
    storage: dist.ProcessGroup

    @classmethod
    def join(cls, sizes: dict[str, int], device: torch.device, timeout: datetime.timedelta) -> Mesh:
        """Lay out the initialised default group along `sizes` (axis name to size, in AXES order)."""
        axes = init_device_mesh(device.type, tuple(sizes[axis] for axis in AXES), mesh_dim_names=AXES)
        return cls(
            rank=dist.get_rank(),
            world=dist.get_world_size(),
            sizes=dict(sizes),
            ranks={axis: axes.get_local_rank(axis) for axis in AXES},
            groups={axis: axes.get_group(axis) for axis in AXES},
            replica=_replica(sizes, axes, device, timeout),
            control=_everyone("control", timeout),
            storage=_everyone("storage", timeout),
        )

    @property
    def part(self) -> int:
        """Which part of the model this rank holds; its replicas have the same number."""
        return self.ranks["pipeline"] * self.sizes["tensor"] + self.ranks["tensor"]

    def another(self, axis: str, purpose: str, device: torch.device, timeout: datetime.timedelta) -> dist.ProcessGroup:
        """One more group along `axis`, of the same ranks as `groups[axis]`, for what may not meet anything there.

        Collective over all ranks.
        """
        layout = torch.arange(self.world).view([self.sizes[name] for name in AXES])
        lines = layout.movedim(AXES.index(axis), -1).reshape(-1, self.sizes[axis])
        return _one_of(lines.tolist(), purpose, device, timeout)


def _replica(
    sizes: dict[str, int], axes: DeviceMesh, device: torch.device, timeout: datetime.timedelta
) -> dist.ProcessGroup:
    for axis, other in (("pipeline", "tensor"), ("tensor", "pipeline")):
        if sizes[other] == 1:
            return axes.get_group(axis)
    replicas = [axes.mesh[:, number].flatten().tolist() for number in range(sizes["data"])]
    return _one_of(replicas, "replica", device, timeout)


def _one_of(
    members: Sequence[list[int]], purpose: str, device: torch.device, timeout: datetime.timedelta
) -> dist.ProcessGroup:
    """Of groups with these members, the one with this rank.

    Groups are named by how many there were before, so all ranks make all of them.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    found = None
    for ranks in members:
        group = dist.new_group(ranks, backend=backend, timeout=timeout, group_desc=purpose)
        if dist.get_rank() in ranks:
            found = group
    assert isinstance(found, dist.ProcessGroup), "every rank is in one"
    return found


def _everyone(purpose: str, timeout: datetime.timedelta) -> dist.ProcessGroup:
    group = dist.new_group(backend="gloo", timeout=timeout, group_desc=purpose)
    assert isinstance(group, dist.ProcessGroup), "every rank is a member"
    return group
