"""Two levels: full precision inside a node, where the link is fast, and compression between nodes, where it is slow."""

import datetime
import os
import socket
from collections.abc import Callable
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.comm.wire import Wire
from trainer.spec import ConfigError


class Hierarchy:
    """The ranks of this rank's node, and the ranks that stand in its place on the other nodes.

    Reduce-scatter, exchange, all-gather (as in BlueConnect, Cho et al. 2019): between nodes each rank moves one L-th of
    the gradient, for L ranks a node.
    """

    def __init__(self, inside: Wire, between: Wire) -> None:
        self.inside, self.between = inside, between

    def average(self, flat: Tensor, compress: Callable[[Tensor, slice], Tensor]) -> Tensor:
        """The mean of `flat` over all ranks, where `compress(shard, place)` averages one shard between nodes."""
        ranks = self.inside.size
        length = -(-flat.numel() // ranks)
        padded = torch.nn.functional.pad(flat, (0, length * ranks - flat.numel()))
        # Gloo's reduce-scatter is a whole all-reduce; an exchange and a sum move half the bytes.
        shard = self.inside.swap(padded.view(ranks, length), "reduce-scatter inside the node").mean(0)
        place = slice(self.inside.rank * length, min(flat.numel(), (self.inside.rank + 1) * length))
        filled = max(0, place.stop - place.start)
        if filled:
            shard[:filled] = compress(shard[:filled], place)
        return self.inside.gather(shard, "all-gather inside the node").flatten()[: flat.numel()]


def find_hierarchy(
    group: dist.ProcessGroup, timeout: datetime.timedelta, wanted: bool | Literal["auto"]
) -> Hierarchy | None:
    """The hierarchy of `group`; None where `wanted` is auto and there is only one level; collective over the group.

    Raises ConfigError where it is wanted and nodes hold different numbers of ranks.
    """
    node = os.environ.get("GROUP_RANK") or os.environ.get("SLURM_NODEID") or ""
    names: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(names, f"{socket.gethostname()}/{node}", group=group)
    ranks = dist.get_process_group_ranks(group)
    nodes = [[rank for rank, name in zip(ranks, names, strict=True) if name == one] for one in dict.fromkeys(names)]
    sizes = {len(members) for members in nodes}
    if len(sizes) > 1:
        if wanted == "auto":
            return None
        raise ConfigError(
            f"comm.hierarchical: the nodes hold {sorted(sizes)} ranks of the data axis; start equally many on each, or"
            " set comm.hierarchical=false"
        )
    if wanted == "auto" and (len(nodes) == 1 or sizes == {1}):
        return None
    inside = next(members for members in nodes if dist.get_rank() in members)
    place = inside.index(dist.get_rank())
    between = [members[place] for members in nodes]
    return Hierarchy(*(Wire(_group(members, group, timeout)) for members in (inside, between)))


def _group(members: list[int], parent: dist.ProcessGroup, timeout: datetime.timedelta) -> dist.ProcessGroup:
    made = dist.new_group(
        members,
        backend=dist.get_backend(parent),
        timeout=timeout,
        use_local_synchronization=True,
        group_desc="hierarchy",
    )
    assert isinstance(made, dist.ProcessGroup), "this rank is a member of the group"
    return made
