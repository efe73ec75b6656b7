"""Ranks that share layers belong inside a host."""

from __future__ import annotations

import logging

import torch
import torch.distributed as dist

from trainer.mesh import Mesh
from trainer.nccl import machine
from trainer.nccl.probe import probe

log = logging.getLogger(__name__)


def warn_of_hosts(mesh: Mesh, device: torch.device) -> None:
    """Log a warning, with the rate between them, where ranks that share layers are on several hosts; collective.

    Costs a second there, and else one message.
    """
    size = mesh.sizes["tensor"]
    hosts: list[str] = [""] * mesh.world
    dist.all_gather_object(hosts, machine.node_name(), group=mesh.control)
    # They are neighbours.
    if all(len(set(hosts[first : first + size])) == 1 for first in range(0, mesh.world, size)):
        return
    group = mesh.groups["tensor"]
    link = probe(group, mesh.control, [hosts[rank] for rank in dist.get_process_group_ranks(group)], device)["between"]
    log.warning(
        "parallel.tensor.size: the %d ranks that share a layer are on several hosts, with %.3g Gbit/s between them, and"
        " every layer sums its activations over that in both passes; use a size that divides the processes of a host",
        size,
        link.bytes_per_s * 8 / 1e9,
    )
