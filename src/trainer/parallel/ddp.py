"""The data axis: torch's DistributedDataParallel, with our hook on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainer.parallel.base import DataAxis


def replicate(module: nn.Module, axis: DataAxis, group: dist.ProcessGroup, state: Any, hook: Callable) -> nn.Module:
    """Wrap `module`, already on its device, so that backward averages gradients over `group` through `hook`.

    The module comes back unwrapped where the group has one rank or nothing is to be learned. The state of a stateless
    hook is its group: a state of None would mean the default group to torch's own hooks.
    """
    if dist.get_world_size(group) == 1 or not any(p.requires_grad for p in module.parameters()):
        return module
    assert axis.bucket_cap_mb != "auto", "worked out by now"
    wrapped = DistributedDataParallel(
        module,
        process_group=group,
        bucket_cap_mb=axis.bucket_cap_mb,
        gradient_as_bucket_view=axis.gradient_as_bucket_view,
        find_unused_parameters=axis.find_unused_parameters,
    )
    wrapped.register_comm_hook(state, hook)
    return wrapped


def share_buffers(module: nn.Module, group: dist.ProcessGroup) -> None:
    """Give all replicas the first one's buffers, such as the running means of batch norm, which each gathers alone."""
    first = dist.get_process_group_ranks(group)[0]
    for buffer in module.buffers():
        dist.broadcast(buffer, first, group=group)
