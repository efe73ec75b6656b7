"""Ranks that share layers belong inside a host."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
import torch.distributed as dist

from trainer.mesh import Mesh
from trainer.nccl.probe import hosts_of, probe

log = logging.getLogger(__name__)


def apart(hosts: Sequence[str], size: int) -> bool:
    """Whether ranks that share layers, `size` neighbours, are on several hosts; `hosts` has that of each rank."""
    return any(len(set(hosts[first : first + size])) > 1 for first in range(0, len(hosts), size))


def warn_of_hosts(mesh: Mesh, device: torch.device) -> None:
    """Log a warning, with the rate between them, where ranks that share layers are on several hosts; collective.

    Costs a second there, and else one message.
    """
    size = mesh.sizes["tensor"]
    hosts = hosts_of(mesh.control)
    if not apart(hosts, size):
        return
    group = mesh.groups["tensor"]
    link = probe(group, mesh.control, [hosts[rank] for rank in dist.get_process_group_ranks(group)], device)["between"]
    log.warning(
        "parallel.tensor.size: the %d ranks that share a layer are on several hosts, with %.3g Gbit/s between them, and"
        " every layer sums its activations over that in both passes; use a size that divides the processes of a host",
        size,
        link.bytes_per_s * 8 / 1e9,
    )
